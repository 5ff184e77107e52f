#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tutti/pjrt/element_type.h"
#include "tutti/pjrt/plugin.h"

namespace tutti::pjrt {

class Buffer;
class LoadedExecutable;
struct CompileOptions;

// What a plugin says of a device.
struct DeviceFacts {
  int id;
  int process;
  std::string kind;        // "TPU v5 lite"
  NamedValues attributes;  // of TPUs: "coords", "core_on_chip"
};
DeviceFacts facts_of(const Plugin& plugin, abi::DeviceDescription* description);

// Numbers on the host, dense, the last dimension fastest.
struct HostArray {
  const void* data;
  ElementType type;
  std::vector<int64_t> dims;
  std::shared_ptr<const void> owner = {};  // kept until they are read; null: they are copied during the call
};

// The devices of a plugin, in use. Buffers and executables share it; it ends with the last of them.
// Threads: any number may call.
class Client : public std::enable_shared_from_this<Client> {
 public:
  // Throws the plugin's error: unknown options, no device, or one that another process uses.
  static std::shared_ptr<Client> create(const Plugin& plugin, const NamedValues& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return plugin_; }
  const std::string& platform() const { return platform_; }  // "tpu", "cpu"
  const std::string& platform_version() const { return platform_version_; }
  // Those of this process.
  const std::vector<DeviceFacts>& devices() const { return facts_; }

  // Starts to copy an array to the device of this number in devices(). What fails on the way is told by what reads the
  // buffer. Throws: invalid_argument for a device that is not there; resource_exhausted.
  Buffer put(const HostArray& array, size_t device);
  // `program`: StableHLO, as text or bytecode. Blocks: seconds for a training step. Throws the plugin's error, which
  // names the line of the text.
  LoadedExecutable compile(const std::string& program, const CompileOptions& options);

 private:
  friend class LoadedExecutable;
  Client(const Plugin& plugin, abi::Client* handle);

  const Plugin& plugin_;
  abi::Client* const handle_;
  std::string platform_, platform_version_;
  std::vector<abi::Device*> devices_;
  std::vector<DeviceFacts> facts_;
  std::atomic<int> launches_{0};
};

// A program in the C interface's form; refers to the text.
abi::Program program_of(const std::string& text);

}  // namespace tutti::pjrt
