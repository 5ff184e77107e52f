// A PJRT plugin for the CPU: our declaration of the C interface in front of XLA's CPU client, which TensorFlow's wheel
// has in libtensorflow_cc.so.2. Create options: cpu_device_count, how many devices there are to be.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/pjrt/table.h"
#include "tutti/pjrt/abi.h"
#include "tutti/pjrt/abi_programs.h"
#include "xla/literal.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_client_options.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/shape_util.h"

namespace xla {
// Of xla/pjrt/mlir_to_hlo.h, which includes headers of LLVM that the wheel does not have.
absl::Status ParseMlirModuleStringAndConvertToXlaComputation(absl::string_view text, XlaComputation& computation,
                                                             bool use_tuple_args, bool return_tuple);
}  // namespace xla

namespace tutti::pjrt::abi {

struct Error {
  absl::Status status;
};
struct Event {
  xla::Future<> future;
};
struct DeviceDescription {
  xla::PjRtDevice* device;
};
struct Device {
  DeviceDescription description;
};
struct Client {
  std::unique_ptr<xla::PjRtClient> client;
  std::vector<Device> devices = {};
  std::vector<Device*> addresses = {};
};
struct Executable {
  int64_t outputs;
};
struct LoadedExecutable {
  std::unique_ptr<xla::PjRtLoadedExecutable> loaded;
};
struct Buffer {
  std::unique_ptr<xla::PjRtBuffer> buffer;
  std::vector<int64_t> dims;
};

namespace {

constexpr xla::PrimitiveType kTypes[] = {xla::PRIMITIVE_TYPE_INVALID,
                                         xla::PRED,
                                         xla::S8,
                                         xla::S16,
                                         xla::S32,
                                         xla::S64,
                                         xla::U8,
                                         xla::U16,
                                         xla::U32,
                                         xla::U64,
                                         xla::F16,
                                         xla::F32,
                                         xla::F64,
                                         xla::BF16,
                                         xla::C64,
                                         xla::C128};

Error* error_of(absl::Status status) { return status.ok() ? nullptr : new Error{std::move(status)}; }

void destroy_error(ErrorDestroy* args) { delete args->error; }
void message(ErrorMessage* args) {
  args->message = args->error->status.message().data();
  args->message_size = args->error->status.message().size();
}
Error* code(ErrorGetCode* args) {
  args->code = static_cast<int>(args->error->status.code());
  return nullptr;
}
Error* initialize(PluginInitialize*) { return nullptr; }
Error* attributes(PluginAttributes* args) {
  args->num_attributes = 0;
  return nullptr;
}

Error* destroy_event(EventDestroy* args) {
  delete args->event;
  return nullptr;
}
Error* on_ready(EventOnReady* args) {
  args->event->future.OnReady([callback = args->callback, user_arg = args->user_arg](absl::Status status) {
    callback(error_of(std::move(status)), user_arg);
  });
  return nullptr;
}

Error* create_client(ClientCreate* args) {
  xla::CpuClientOptions options;
  for (size_t i = 0; i < args->num_options; ++i) {
    const NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    if (name != "cpu_device_count" || option.type != ValueType::int64)
      return error_of(absl::InvalidArgumentError("Unexpected option name passed to PJRT_Client_Create: " + name));
    options.cpu_device_count = static_cast<int>(option.int64_value);
  }
  auto made = xla::GetXlaPjrtCpuClient(std::move(options));
  if (!made.ok()) return error_of(made.status());
  auto client = std::make_unique<Client>();
  client->client = *std::move(made);
  for (xla::PjRtDevice* device : client->client->addressable_devices()) client->devices.push_back({{device}});
  for (Device& device : client->devices) client->addresses.push_back(&device);
  args->client = client.release();
  return nullptr;
}
Error* destroy_client(ClientDestroy* args) {
  delete args->client;
  return nullptr;
}
Error* platform_name(ClientPlatformName* args) {
  const auto name = args->client->client->platform_name();
  args->platform_name = name.data();
  args->platform_name_size = name.size();
  return nullptr;
}
Error* platform_version(ClientPlatformVersion* args) {
  const auto version = args->client->client->platform_version();
  args->platform_version = version.data();
  args->platform_version_size = version.size();
  return nullptr;
}
Error* devices(ClientAddressableDevices* args) {
  args->addressable_devices = args->client->addresses.data();
  args->num_addressable_devices = args->client->addresses.size();
  return nullptr;
}

Error* description(DeviceGetDescription* args) {
  args->device_description = &args->device->description;
  return nullptr;
}
Error* id(DeviceDescriptionId* args) {
  args->id = static_cast<int>(args->device_description->device->global_device_id().value());
  return nullptr;
}
Error* process_index(DeviceDescriptionProcessIndex* args) {
  args->process_index = 0;
  return nullptr;
}
Error* device_attributes(DeviceDescriptionAttributes* args) {
  args->num_attributes = 0;
  return nullptr;
}
Error* kind(DeviceDescriptionKind* args) {
  const auto kind = args->device_description->device->device_kind();
  args->device_kind = kind.data();
  args->device_kind_size = kind.size();
  return nullptr;
}

Error* compile(ClientCompile* args) {
  xla::CompileOptionsProto proto;
  if (!proto.ParseFromString(std::string(args->compile_options, args->compile_options_size)))
    return error_of(absl::InvalidArgumentError("the compile options are no CompileOptionsProto"));
  auto options = xla::CompileOptions::FromProto(proto);
  if (!options.ok()) return error_of(options.status());
  xla::XlaComputation computation;
  const absl::Status parsed = xla::ParseMlirModuleStringAndConvertToXlaComputation(
      {args->program->code, args->program->code_size}, computation, options->parameter_is_tupled_arguments, false);
  if (!parsed.ok()) return error_of(parsed);
  auto loaded = args->client->client->CompileAndLoad(computation, *options);
  if (!loaded.ok()) return error_of(loaded.status());
  args->executable = new LoadedExecutable{*std::move(loaded)};
  return nullptr;
}
Error* destroy_loaded(LoadedExecutableDestroy* args) {
  delete args->executable;
  return nullptr;
}
Error* executable(LoadedExecutableGetExecutable* args) {
  auto shapes = args->loaded_executable->loaded->GetOutputShapes();
  if (!shapes.ok()) return error_of(shapes.status());
  const bool is_tuple = shapes->at(0).IsTuple();
  args->executable = new Executable{is_tuple ? static_cast<int64_t>(shapes->at(0).tuple_shapes().size()) : 1};
  return nullptr;
}
Error* destroy_executable(ExecutableDestroy* args) {
  delete args->executable;
  return nullptr;
}
Error* num_outputs(ExecutableNumOutputs* args) {
  args->num_outputs = static_cast<size_t>(args->executable->outputs);
  return nullptr;
}

Buffer* buffer_of(std::unique_ptr<xla::PjRtBuffer> buffer) {
  const auto dims = buffer->dimensions();
  std::vector<int64_t> sizes(dims.begin(), dims.end());
  return new Buffer{std::move(buffer), std::move(sizes)};
}

Error* execute(LoadedExecutableExecute* args) {
  std::vector<std::vector<xla::PjRtBuffer*>> arguments(args->num_devices);
  for (size_t device = 0; device < args->num_devices; ++device)
    for (size_t i = 0; i < args->num_args; ++i)
      arguments[device].push_back(args->argument_lists[device][i]->buffer.get());
  xla::ExecuteOptions options;
  options.launch_id = args->options->launch_id;
  std::optional<std::vector<xla::Future<>>> done(std::in_place);
  auto results = args->executable->loaded->Execute(arguments, options, done);
  if (!results.ok()) return error_of(results.status());
  for (size_t device = 0; device < results->size(); ++device) {
    for (size_t i = 0; i < (*results)[device].size(); ++i)
      args->output_lists[device][i] = buffer_of(std::move((*results)[device][i]));
    args->device_complete_events[device] = new Event{std::move((*done)[device])};
  }
  return nullptr;
}

Error* from_host(ClientBufferFromHostBuffer* args) {
  auto space = args->device->description.device->default_memory_space();
  if (!space.ok()) return error_of(space.status());
  auto [promise, future] = xla::MakePromise<>();
  absl::AnyInvocable<void()&&> done = [promise = std::move(promise)]() mutable { promise.Set(); };
  std::optional<absl::Span<const int64_t>> strides;
  if (args->byte_strides) strides.emplace(args->byte_strides, args->num_byte_strides);
  auto buffer = args->client->client->BufferFromHostBuffer(
      args->data, kTypes[args->type], {args->dims, args->num_dims}, strides,
      static_cast<xla::PjRtClient::HostBufferSemantics>(args->host_buffer_semantics), std::move(done), *space, nullptr);
  if (!buffer.ok()) return error_of(buffer.status());
  args->buffer = buffer_of(*std::move(buffer));
  args->done_with_host_buffer = new Event{std::move(future)};
  return nullptr;
}
Error* destroy_buffer(BufferDestroy* args) {
  delete args->buffer;
  return nullptr;
}
Error* dimensions(BufferDimensions* args) {
  args->dims = args->buffer->dims.data();
  args->num_dims = args->buffer->dims.size();
  return nullptr;
}
Error* element_type(BufferElementType* args) {
  const auto* found = std::find(std::begin(kTypes), std::end(kTypes), args->buffer->buffer->element_type());
  args->type = static_cast<int>(found - std::begin(kTypes));
  return nullptr;
}
Error* is_deleted(BufferIsDeleted* args) {
  args->is_deleted = args->buffer->buffer->IsDeleted();
  return nullptr;
}
Error* to_host(BufferToHostBuffer* args) {
  const auto shape = xla::ShapeUtil::MakeShapeWithDescendingLayout(args->src->buffer->element_type(), args->src->dims);
  auto literal = std::make_shared<xla::MutableBorrowingLiteral>(static_cast<char*>(args->dst), shape);
  auto future = args->src->buffer->ToLiteral(literal.get());
  future.OnReady([literal](const absl::Status&) {});
  args->event = new Event{std::move(future)};
  return nullptr;
}

Api make_table() {
  Api api{.struct_size = sizeof(Api), .version = {.major_version = kMajorVersion, .minor_version = 90}};
  set(api, destroy_error), set(api, message), set(api, code), set(api, initialize), set(api, attributes);
  set(api, destroy_event), set(api, on_ready);
  set(api, create_client), set(api, destroy_client), set(api, platform_name), set(api, platform_version);
  set(api, devices), set(api, compile), set(api, from_host);
  set(api, description), set(api, id), set(api, process_index), set(api, device_attributes), set(api, kind);
  set(api, destroy_loaded), set(api, executable), set(api, destroy_executable), set(api, num_outputs);
  set(api, execute);
  set(api, destroy_buffer), set(api, dimensions), set(api, element_type), set(api, is_deleted), set(api, to_host);
  return api;
}

}  // namespace
}  // namespace tutti::pjrt::abi

extern "C" __attribute__((visibility("default"))) const tutti::pjrt::abi::Api* GetPjrtApi() {
  static const tutti::pjrt::abi::Api api = tutti::pjrt::abi::make_table();
  return &api;
}
