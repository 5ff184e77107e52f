#include "tutti/pjrt/executable.h"

#include <algorithm>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/pjrt/abi_programs.h"

namespace tutti::pjrt {

Executable::Executable(Executable&& other) noexcept
    : plugin_(other.plugin_), handle_(std::exchange(other.handle_, nullptr)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(handle_, other.handle_);
  return *this;
}

Executable::~Executable() { plugin_->destroy<abi::ExecutableDestroy>(handle_); }

size_t Executable::num_outputs() const {
  abi::ExecutableNumOutputs args{.executable = handle_};
  plugin_->call(args);
  return args.num_outputs;
}

int64_t Executable::code_bytes() const {
  abi::ExecutableSizeOfGeneratedCode args{.executable = handle_};
  plugin_->call(args);
  return args.size_in_bytes;
}

MemoryUse Executable::memory_use() const {
  abi::ExecutableMemoryStats args{.executable = handle_};
  plugin_->call(args);
  return {.code = args.generated_code_size_in_bytes,
          .arguments = args.argument_size_in_bytes,
          .outputs = args.output_size_in_bytes,
          .aliased = args.alias_size_in_bytes,
          .temporaries = args.temp_size_in_bytes};
}

std::string Executable::optimized_program() const {
  abi::Program program{};
  abi::ExecutableOptimizedProgram args{.executable = handle_, .program = &program};
  plugin_->call(args);  // tells the size
  std::string code(program.code_size, '\0');
  program.code = code.data();
  plugin_->call(args);
  return code;
}

LoadedExecutable::LoadedExecutable(std::shared_ptr<Client> client, abi::LoadedExecutable* handle, size_t replicas)
    : client_(std::move(client)), handle_(handle), replicas_(replicas) {
  try {
    abi::LoadedExecutableGetExecutable args{.loaded_executable = handle_};
    client_->plugin().call(args);
    facts_ = std::make_unique<Executable>(client_->plugin(), args.executable);
    num_outputs_ = facts_->num_outputs();
  } catch (...) {
    client_->plugin().destroy<abi::LoadedExecutableDestroy>(handle_);
    throw;
  }
}

LoadedExecutable::LoadedExecutable(LoadedExecutable&& other) noexcept
    : client_(other.client_),
      handle_(std::exchange(other.handle_, nullptr)),
      replicas_(other.replicas_),
      facts_(std::move(other.facts_)),
      num_outputs_(other.num_outputs_) {}

LoadedExecutable& LoadedExecutable::operator=(LoadedExecutable&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(handle_, other.handle_);
  std::swap(replicas_, other.replicas_);
  std::swap(facts_, other.facts_);
  std::swap(num_outputs_, other.num_outputs_);
  return *this;
}

LoadedExecutable::~LoadedExecutable() {
  facts_.reset();
  if (handle_) client_->plugin().destroy<abi::LoadedExecutableDestroy>(handle_);
}

LoadedExecutable::Run LoadedExecutable::run(const std::vector<std::vector<const Buffer*>>& arguments) const {
  if (arguments.size() != replicas_)
    throw Error(ErrorCode::invalid_argument,
                str("a program of ", replicas_, " replicas is given arguments for ", arguments.size()));
  const size_t num_arguments = arguments.front().size();
  std::vector<std::vector<abi::Buffer*>> in(replicas_), out(replicas_, std::vector<abi::Buffer*>(num_outputs_));
  std::vector<abi::Buffer* const*> in_lists;
  std::vector<abi::Buffer**> out_lists;
  for (size_t replica = 0; replica < replicas_; ++replica) {
    if (arguments[replica].size() != num_arguments)
      throw Error(ErrorCode::invalid_argument, str("replica ", replica, " has ", arguments[replica].size(),
                                                   " arguments, replica 0 has ", num_arguments));
    for (const Buffer* const buffer : arguments[replica]) in[replica].push_back(buffer->handle_);
    in_lists.push_back(in[replica].data());
    out_lists.push_back(out[replica].data());
  }
  abi::ExecuteOptions options{.launch_id = ++client_->launches_};
  std::vector<abi::Event*> done(replicas_);
  abi::LoadedExecutableExecute args{.executable = handle_,
                                    .options = &options,
                                    .argument_lists = in_lists.data(),
                                    .num_devices = replicas_,
                                    .num_args = num_arguments,
                                    .output_lists = out_lists.data(),
                                    .device_complete_events = done.data()};
  client_->plugin().call(args);
  Run run;
  run.outputs.resize(replicas_);
  for (size_t replica = 0; replica < replicas_; ++replica)
    for (abi::Buffer* const buffer : out[replica]) run.outputs[replica].emplace_back(client_, buffer);
  for (size_t replica = 0; replica < replicas_; ++replica)
    run.done.emplace_back(client_->plugin(), done[replica], str("a run on replica ", replica));
  return run;
}

void LoadedExecutable::Run::wait(std::chrono::milliseconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (const Event& event : done)
    event.wait(std::max(std::chrono::milliseconds(0),
                        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())));
}

}  // namespace tutti::pjrt
