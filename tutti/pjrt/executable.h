#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/client.h"
#include "tutti/pjrt/event.h"

namespace tutti::pjrt {

// Bytes that a compiled program takes on each device.
struct MemoryUse {
  int64_t code, arguments, outputs, aliased, temporaries;  // aliased: outputs in the memory of donated arguments
};

// A compiled program, of which facts are asked; it need not be on a device.
class Executable {
 public:
  Executable(const Plugin& plugin, abi::Executable* handle) : plugin_(&plugin), handle_(handle) {}
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;
  ~Executable();

  size_t num_outputs() const;
  int64_t code_bytes() const;
  MemoryUse memory_use() const;
  // What the compiler made of it, in its own form: HLO as a protocol buffer. For counting what is in it.
  std::string optimized_program() const;

 private:
  const Plugin* plugin_;
  abi::Executable* handle_;
};

// A compiled program on the devices of a client. Threads: any number may call; on shared devices in one order.
class LoadedExecutable {
 public:
  LoadedExecutable(std::shared_ptr<Client> client, abi::LoadedExecutable* handle, size_t replicas);
  LoadedExecutable(LoadedExecutable&& other) noexcept;
  LoadedExecutable& operator=(LoadedExecutable&& other) noexcept;
  ~LoadedExecutable();

  const Executable& facts() const { return *facts_; }
  size_t num_replicas() const { return replicas_; }

  struct Run {
    std::vector<std::vector<Buffer>> outputs;  // [replica][output]; they may be used before the run has ended
    std::vector<Event> done;                   // [replica]
    // Throws: the first failure; deadline_exceeded.
    void wait(std::chrono::milliseconds timeout = kDefaultTimeout) const;
  };
  // Starts it on [replica][argument]. Arguments that the program donates are deleted. Throws: invalid_argument for
  // another number of replicas, or of arguments on one; the plugin's error.
  Run run(const std::vector<std::vector<const Buffer*>>& arguments) const;

 private:
  std::shared_ptr<Client> client_;
  abi::LoadedExecutable* handle_;
  size_t replicas_;
  std::unique_ptr<Executable> facts_;
  size_t num_outputs_ = 0;
};

}  // namespace tutti::pjrt
