#include <cstring>
#include <utility>
#include <vector>

#include "tests/pjrt/table.h"
#include "tests/support/fake_pjrt_plugin.h"
#include "tutti/pjrt/abi.h"
#include "tutti/pjrt/abi_programs.h"

namespace tutti::pjrt {
namespace {

struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --alive; }
  static inline int alive = 0;
};
Fault fault = Fault::none;

}  // namespace

namespace abi {

struct Error : Counted {
  Error(int c, std::string t) : code(c), text(std::move(t)) {}
  int code;
  std::string text;
};
struct Event : Counted {};
struct DeviceDescription {
  int id;
};
struct Device {
  DeviceDescription description;
};
struct Client : Counted {
  Device devices[2] = {{{7}}, {{8}}};
  Device* addresses[2] = {&devices[0], &devices[1]};
};
struct Buffer : Counted {
  int type;
  std::vector<int64_t> dims;
  std::vector<char> bytes;
};
struct Executable : Counted {};
struct LoadedExecutable : Counted {};
struct TopologyDescription : Counted {
  DeviceDescription device{3};
  DeviceDescription* address = &device;
};

namespace {

using Callback = std::pair<void (*)(Error*, void*), void*>;
std::vector<Callback> late;  // those of events that have not happened

Error* fails_with(Fault this_one, int code, const char* text) {
  return fault == this_one ? new Error(code, text) : nullptr;
}
template <class Args>
Error* too_short(const Args* args) {
  return args->struct_size == Args::size() ? nullptr : new Error(3, "a structure has another size");
}
Event* new_event() { return fault == Fault::null_event ? nullptr : new Event; }

void destroy_error(ErrorDestroy* args) { delete args->error; }
void message(ErrorMessage* args) {
  args->message = args->error->text.data();
  args->message_size = args->error->text.size();
}
Error* code(ErrorGetCode* args) {
  args->code = args->error->code;
  return nullptr;
}
Error* initialize(PluginInitialize*) { return fails_with(Fault::failed_start, 9, "the driver is too old"); }
Error* attributes(PluginAttributes* args) {
  static const int64_t kVersion[] = {1, 24, 0};
  static const NamedValue kAttributes[] = {
      {.name = "stablehlo_current_version",
       .name_size = 25,
       .type = ValueType::int64_list,
       .int64_array_value = kVersion,
       .value_size = 3},
      {.name = "fake", .name_size = 4, .type = ValueType::boolean, .bool_value = true}};
  args->attributes = kAttributes;
  args->num_attributes = 2;
  return too_short(args);
}

Error* destroy_event(EventDestroy* args) {
  delete args->event;
  return nullptr;
}
Error* on_ready(EventOnReady* args) {
  if (fault == Fault::late_event)
    late.emplace_back(args->callback, args->user_arg);
  else
    args->callback(fails_with(Fault::failed_event, 15, "a bit flipped"), args->user_arg);
  return nullptr;
}

Error* create_client(ClientCreate* args) {
  if (Error* error = too_short(args)) return error;
  for (size_t i = 0; i < args->num_options; ++i)
    if (std::strncmp(args->create_options[i].name, "speed", args->create_options[i].name_size) != 0)
      return new Error(3, "Unexpected option name");
  if (Error* error = fails_with(Fault::failed_create, 5, "no device is attached")) return error;
  args->client = fault == Fault::no_client ? nullptr : new Client;
  return nullptr;
}
Error* destroy_client(ClientDestroy* args) {
  delete args->client;
  return fails_with(Fault::failed_destroy, 13, "the device did not answer");
}
Error* platform_name(ClientPlatformName* args) {
  args->platform_name = "fake";
  args->platform_name_size = 4;
  return nullptr;
}
Error* platform_version(ClientPlatformVersion* args) {
  args->platform_version = "3";
  args->platform_version_size = 1;
  return nullptr;
}
Error* devices(ClientAddressableDevices* args) {
  args->addressable_devices = args->client->addresses;
  args->num_addressable_devices = 2;
  return nullptr;
}
Error* description(DeviceGetDescription* args) {
  args->device_description = &args->device->description;
  return nullptr;
}
Error* id(DeviceDescriptionId* args) {
  args->id = args->device_description->id;
  return nullptr;
}
Error* process_index(DeviceDescriptionProcessIndex*) { return nullptr; }
Error* device_attributes(DeviceDescriptionAttributes* args) {
  args->num_attributes = 0;
  return nullptr;
}
Error* kind(DeviceDescriptionKind* args) {
  args->device_kind = "Fake v1";
  args->device_kind_size = 7;
  return nullptr;
}

Error* compile(ClientCompile* args) {
  if (Error* error = fails_with(Fault::failed_compile, 3, "line 3: unknown op")) return error;
  args->executable = new LoadedExecutable;
  return too_short(args->program);
}
Error* destroy_loaded(LoadedExecutableDestroy* args) {
  delete args->executable;
  return nullptr;
}
Error* executable(LoadedExecutableGetExecutable* args) {
  args->executable = new Executable;
  return nullptr;
}
Error* destroy_executable(ExecutableDestroy* args) {
  delete args->executable;
  return nullptr;
}
Error* num_outputs(ExecutableNumOutputs* args) {
  args->num_outputs = 1;
  return nullptr;
}
Error* code_size(ExecutableSizeOfGeneratedCode* args) {
  args->size_in_bytes = 12;
  return nullptr;
}
Error* memory(ExecutableMemoryStats* args) {
  args->temp_size_in_bytes = 34;
  return nullptr;
}
Error* optimized(ExecutableOptimizedProgram* args) {
  if (args->program->code) std::memcpy(args->program->code, "HloModule", 9);
  args->program->code_size = 9;
  return nullptr;
}

Buffer* buffer_like(int type, std::vector<int64_t> dims, const void* data) {
  auto* buffer = new Buffer;
  buffer->type = type;
  buffer->dims = std::move(dims);
  static constexpr int kBytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16};
  int64_t bytes = kBytes[type];
  for (const int64_t dim : buffer->dims) bytes *= dim;
  buffer->bytes.resize(static_cast<size_t>(bytes));
  if (!buffer->bytes.empty()) std::memcpy(buffer->bytes.data(), data, buffer->bytes.size());
  return buffer;
}
Error* run(LoadedExecutableExecute* args) {
  if (Error* error = too_short(args->options)) return error;
  if (Error* error = fails_with(Fault::failed_run, 14, "a chip is lost")) return error;
  for (size_t device = 0; device < args->num_devices; ++device) {
    const Buffer& first = *args->argument_lists[device][0];
    args->output_lists[device][0] = buffer_like(first.type, first.dims, first.bytes.data());
    args->device_complete_events[device] = new_event();
  }
  return nullptr;
}
Error* put(ClientBufferFromHostBuffer* args) {
  if (Error* error = fails_with(Fault::failed_put, 8, "out of memory")) return error;
  args->buffer = buffer_like(args->type, {args->dims, args->dims + args->num_dims}, args->data);
  args->done_with_host_buffer = new_event();
  return nullptr;
}
Error* destroy_buffer(BufferDestroy* args) {
  delete args->buffer;
  return nullptr;
}
Error* element_type(BufferElementType* args) {
  args->type = args->buffer->type;
  return nullptr;
}
Error* dimensions(BufferDimensions* args) {
  args->dims = args->buffer->dims.data();
  args->num_dims = args->buffer->dims.size();
  return nullptr;
}
Error* is_deleted(BufferIsDeleted* args) {
  args->is_deleted = false;
  return nullptr;
}
Error* read(BufferToHostBuffer* args) {
  if (!args->src->bytes.empty()) std::memcpy(args->dst, args->src->bytes.data(), args->dst_size);
  args->event = new_event();
  return nullptr;
}

Error* create_topology(TopologyDescriptionCreate* args) {
  if (std::string(args->topology_name, args->topology_name_size) != "fake:1") return new Error(5, "no such topology");
  args->topology = new TopologyDescription;
  return nullptr;
}
Error* destroy_topology(TopologyDescriptionDestroy* args) {
  delete args->topology;
  return nullptr;
}
Error* topology_devices(TopologyDescriptionDevices* args) {
  args->descriptions = &args->topology->address;
  args->num_descriptions = 1;
  return nullptr;
}
Error* compile_for(Compile* args) {
  args->executable = new Executable;
  return nullptr;
}

Api make_table() {
  Api api{.struct_size = sizeof(Api), .version = {.major_version = kMajorVersion, .minor_version = 90}};
  set(api, destroy_error), set(api, message), set(api, code), set(api, initialize), set(api, attributes);
  set(api, destroy_event), set(api, on_ready);
  set(api, create_client), set(api, destroy_client), set(api, platform_name), set(api, platform_version);
  set(api, devices), set(api, compile), set(api, put);
  set(api, description), set(api, id), set(api, process_index), set(api, device_attributes), set(api, kind);
  set(api, destroy_loaded), set(api, executable), set(api, destroy_executable), set(api, num_outputs), set(api, run);
  set(api, code_size), set(api, memory), set(api, optimized);
  set(api, destroy_buffer), set(api, dimensions), set(api, element_type), set(api, is_deleted), set(api, read);
  set(api, create_topology), set(api, destroy_topology), set(api, topology_devices), set(api, compile_for);
  if (fault == Fault::old_version) api.version.minor_version = kOldestMinorVersion - 1;
  if (fault == Fault::other_major_version) api.version.major_version = 1;
  if (fault == Fault::short_table) api.struct_size = offsetof(Api, version);
  if (fault == Fault::few_entries) api.struct_size = offsetof(Api, entries) + sizeof(void*);
  if (fault == Fault::no_compile_entry) api.entries[ClientCompile::kSlot] = nullptr;
  return api;
}

Api api;

}  // namespace
}  // namespace abi
}  // namespace tutti::pjrt

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const tutti::pjrt::abi::Api* GetPjrtApi() {
  tutti::pjrt::abi::api = tutti::pjrt::abi::make_table();
  return tutti::pjrt::fault == tutti::pjrt::Fault::null_table ? nullptr : &tutti::pjrt::abi::api;
}

EXPORTED void set_fault(tutti::pjrt::Fault fault) {
  tutti::pjrt::fault = fault;
  for (const auto& [callback, user_arg] : std::exchange(tutti::pjrt::abi::late, {})) callback(nullptr, user_arg);
}

EXPORTED int alive() { return tutti::pjrt::Counted::alive; }
