#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tutti/function/program_runner.h"
#include "tutti/pjrt/executable.h"
#include "tutti/tpu/device_memory.h"
#include "tutti/tpu/run_keys.h"

namespace tutti::tpu {

// Compiles recorded programs for the devices of a memory, each text once. Threads: any.
class DeviceCompiler final : public ProgramCompiler {
 public:
  explicit DeviceCompiler(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}

  // Throws: unimplemented as fold_replicas and write_program, and for programs that write their arguments.
  std::unique_ptr<ProgramRunner> compile(std::shared_ptr<const Program> program) override;

 private:
  std::shared_ptr<const pjrt::LoadedExecutable> compiled(const std::string& text);

  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<RunKeys> keys_ = std::make_shared<RunKeys>();
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const pjrt::LoadedExecutable>> compiled_;
};

}  // namespace tutti::tpu
