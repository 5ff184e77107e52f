#include "tutti/pjrt/client.h"

#include "tutti/core/str.h"
#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/executable.h"

namespace tutti::pjrt {

DeviceFacts facts_of(const Plugin& plugin, abi::DeviceDescription* description) {
  abi::DeviceDescriptionId id{.device_description = description};
  plugin.call(id);
  abi::DeviceDescriptionProcessIndex process{.device_description = description};
  plugin.call(process);
  abi::DeviceDescriptionKind kind{.device_description = description};
  plugin.call(kind);
  abi::DeviceDescriptionAttributes attributes{.device_description = description};
  plugin.call(attributes);
  return {id.id,
          process.process_index,
          {kind.device_kind, kind.device_kind_size},
          from_abi({attributes.attributes, attributes.num_attributes})};
}

abi::Program program_of(const std::string& text) {
  static constexpr std::string_view kFormat = "mlir";
  return {.code = const_cast<char*>(text.data()),
          .code_size = text.size(),
          .format = kFormat.data(),
          .format_size = kFormat.size()};
}

std::shared_ptr<Client> Client::create(const Plugin& plugin, const NamedValues& options) {
  const std::vector<abi::NamedValue> values = to_abi(options);
  abi::ClientCreate args{.create_options = values.data(), .num_options = values.size()};
  plugin.call(args);
  if (!args.client)
    throw Error(ErrorCode::internal, str(plugin.path().string(), ": PJRT_Client_Create gave neither client nor error"));
  return std::shared_ptr<Client>(new Client(plugin, args.client));
}

Client::Client(const Plugin& plugin, abi::Client* handle) : plugin_(plugin), handle_(handle) {
  try {
    abi::ClientPlatformName name{.client = handle};
    plugin.call(name);
    platform_.assign(name.platform_name, name.platform_name_size);
    abi::ClientPlatformVersion version{.client = handle};
    plugin.call(version);
    platform_version_.assign(version.platform_version, version.platform_version_size);
    abi::ClientAddressableDevices devices{.client = handle};
    plugin.call(devices);
    devices_.assign(devices.addressable_devices, devices.addressable_devices + devices.num_addressable_devices);
    for (abi::Device* const device : devices_) {
      abi::DeviceGetDescription description{.device = device};
      plugin.call(description);
      facts_.push_back(facts_of(plugin, description.device_description));
    }
  } catch (...) {
    plugin_.destroy<abi::ClientDestroy>(handle_);
    throw;
  }
}

Client::~Client() { plugin_.destroy<abi::ClientDestroy>(handle_); }

Buffer Client::put(const HostArray& array, size_t device) {
  if (device >= devices_.size())
    throw Error(ErrorCode::invalid_argument,
                str("there is no device ", device, ": ", platform_, " has ", devices_.size()));
  abi::ClientBufferFromHostBuffer args{.client = handle_,
                                       .data = array.data,
                                       .type = static_cast<int>(array.type),
                                       .dims = array.dims.data(),
                                       .num_dims = array.dims.size(),
                                       .host_buffer_semantics = array.owner ? 1 : 0,
                                       .device = devices_[device]};
  plugin_.call(args);
  Buffer buffer(shared_from_this(), args.buffer);
  const Event read(plugin_, args.done_with_host_buffer,
                   str("copying a ", to_string(array.type), " ", str_list(array.dims), " to device ", device),
                   array.owner);
  return buffer;
}

LoadedExecutable Client::compile(const std::string& program, const CompileOptions& options) {
  const std::string serialized = options.serialize();
  const abi::Program text = program_of(program);
  abi::ClientCompile args{.client = handle_,
                          .program = &text,
                          .compile_options = serialized.data(),
                          .compile_options_size = serialized.size()};
  plugin_.call(args);
  return LoadedExecutable(shared_from_this(), args.executable, static_cast<size_t>(options.replicas));
}

}  // namespace tutti::pjrt
