#include "tutti/tpu/device_program.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/surroundings.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/replica_clock.h"
#include "tutti/tpu/fold_replicas.h"
#include "tutti/tpu/program_text.h"

namespace tutti::tpu {
namespace {

using Kind = Program::Buffer::Kind;

// A recorded program on the devices: arguments and what others own go there at each run, variables once.
class DeviceProgram final : public ProgramRunner {
 public:
  DeviceProgram(std::shared_ptr<const Program> program, FoldedProgram folded, ProgramText text,
                std::shared_ptr<DeviceMemory> memory, std::shared_ptr<RunKeys> keys,
                std::shared_ptr<const pjrt::LoadedExecutable> compiled)
      : program_(std::move(program)),
        folded_(std::move(folded)),
        text_(std::move(text)),
        memory_(std::move(memory)),
        keys_(std::move(keys)),
        compiled_(std::move(compiled)) {
    for (const Program::MeshValue& mesh : program_->meshes)
      for (const Tensor& component : mesh.components) mesh_memory_.insert(component.storage().unsafeGetStorageImpl());
    for (const ProgramText::Part& part : text_.arguments) take_argument(part);
  }

  bool fits() const override { return surroundings_fit(*program_); }
  const std::shared_ptr<const Program>& program() const override { return program_; }

  Tensors run(at::ArrayRef<Tensor> arguments) override {
    const std::lock_guard lock(memory_->mutex());
    for (const HostStep& step : folded_.before) step({});
    enter_meshes();
    bump_versions(*program_, arguments);
    auto outputs = launch(arguments);
    take_state(outputs);
    leave_meshes();
    Tensors results = read_results(outputs, arguments);
    make_reports(outputs);
    set_gradients(outputs);
    return results;
  }

 private:
  enum class Source {
    argument,  // of the function
    variable,  // in the memory of a mesh tensor, which stays on the devices
    outside,   // a plain tensor of somebody, or what a replica has of its own: goes there and comes back each time
    key,       // of the run's random numbers
  };
  struct Argument {
    Source source;
    std::vector<int> members;  // buffers, by replica
  };
  using Outputs = std::vector<std::vector<pjrt::Buffer>>;

  const Program::Buffer& buffer(int number) const { return program_->buffers[static_cast<size_t>(number)]; }

  void take_argument(const ProgramText::Part& part) {
    if (part.buffer == ProgramText::kKey) {
      arguments_.push_back({Source::key, {}});
      return;
    }
    const Kind kind = buffer(part.buffer).kind;
    const auto refuse = [&](const char* what) {
      throw Error(ErrorCode::unimplemented, str(program_->name, ": the compiled function ", what));
    };
    if (kind == Kind::argument && part.result >= 0)
      refuse("writes in place to its argument; return the new value instead");
    if (kind != Kind::argument && kind != Kind::captured) refuse("uses a gradient from before it was called");
    Argument argument{Source::outside, folded_.members(part.buffer, memory_->num_devices())};
    if (kind == Kind::argument) argument.source = Source::argument;
    const bool is_shared = argument.members.front() == argument.members.back();
    if (kind == Kind::captured && is_shared &&
        mesh_memory_.contains(buffer(part.buffer).storage.unsafeGetStorageImpl()))
      argument.source = Source::variable;
    arguments_.push_back(std::move(argument));
  }

  // Replicas lose their shares of what the program writes, unless the value is on the devices since.
  void enter_meshes() {
    for (const Program::MeshValue& mesh : program_->meshes) {
      const bool away = std::ranges::all_of(
          mesh.components, [&](const Tensor& component) { return memory_->has_changed(component.storage()); });
      if (away) continue;
      mesh.written ? mesh_impl(mesh.tensor).write() : mesh_impl(mesh.tensor).read();
    }
  }

  void leave_meshes() const {
    for (const Program::MeshValue& mesh : program_->meshes)
      const ReplicasCompute a_period_of(mesh_impl(mesh.tensor).mesh_shape()->clock);
  }

  const void* data_of(const Argument& argument, int replica, at::ArrayRef<Tensor> given) const {
    if (argument.source == Source::key) return &key_;
    const Program::Buffer& source = buffer(argument.members[static_cast<size_t>(replica)]);
    if (argument.source == Source::outside) return source.storage.data();
    const Tensor& tensor = given[static_cast<size_t>(source.index)];
    return tensor.numel() ? tensor.const_data_ptr() : nullptr;
  }

  Outputs launch(at::ArrayRef<Tensor> given) {
    const auto num_devices = static_cast<size_t>(memory_->num_devices());
    std::vector<std::vector<const pjrt::Buffer*>> lists(num_devices);
    std::vector<std::vector<pjrt::Buffer>> sent(num_devices);
    for (auto& buffers : sent) buffers.reserve(arguments_.size());  // which are pointed to
    if (std::ranges::find(arguments_, Source::key, &Argument::source) != arguments_.end()) key_ = keys_->draw();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const Argument& argument = arguments_[i];
      DeviceMemory::Value* const variable =
          argument.source == Source::variable
              ? &memory_->send(buffer(argument.members[0]).storage, text_.arguments[i].type)
              : nullptr;
      for (size_t r = 0; r < num_devices; ++r) {
        const auto replica = static_cast<int>(r);
        if (!variable)
          sent[r].push_back(memory_->put(data_of(argument, replica, given), text_.arguments[i].type, replica));
        lists[r].push_back(variable ? &variable->buffers[r] : &sent[r].back());
      }
      if (variable && text_.arguments[i].result >= 0) variable->changed = true;
    }
    auto run = compiled_->run(lists);
    run.wait();
    for (const auto& of_device : run.outputs)
      if (of_device.size() != text_.types.size())
        throw Error(ErrorCode::internal, str(program_->name, ": the devices give ", of_device.size(),
                                             " results, the program has ", text_.types.size()));
    return std::move(run.outputs);
  }

  // What the program wrote takes the place of what it was given.
  void take_state(Outputs& outputs) {
    std::vector<pjrt::Event> reads;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const int result = text_.arguments[i].result;
      if (result < 0) continue;
      const auto& members = arguments_[i].members;
      if (arguments_[i].source == Source::variable) {
        auto& buffers = memory_->send(buffer(members[0]).storage, text_.arguments[i].type).buffers;
        for (size_t r = 0; r < buffers.size(); ++r) buffers[r] = std::move(outputs[r][static_cast<size_t>(result)]);
        continue;
      }
      for (size_t r = 0; r < members.size(); ++r)
        if (r == 0 || members[r] != members[0])
          reads.push_back(memory_->get(outputs[r][static_cast<size_t>(result)], buffer(members[r]).storage));
    }
    for (const pjrt::Event& read : reads) read.wait();
  }

  // Starts to read what a device gives as result `place` of the folded program.
  Tensor start_to_read(const Outputs& outputs, const FoldedProgram::Result& from, std::vector<pjrt::Event>& reads) {
    const int number = text_.results[static_cast<size_t>(from.place)];
    const stablehlo::Type& type = text_.types[static_cast<size_t>(number)];
    Tensor result = at::empty(type.dims, type.dtype);
    reads.push_back(
        memory_->get(outputs[static_cast<size_t>(from.replica)][static_cast<size_t>(number)], result.storage()));
    return result;
  }

  Tensors read_results(const Outputs& outputs, at::ArrayRef<Tensor> given) {
    Tensors results;
    std::vector<pjrt::Event> reads;
    for (size_t i = 0; i < folded_.results.size(); ++i)
      results.push_back(folded_.results[i].place < 0 ? result_on_host(program_->results[i], given)
                                                     : start_to_read(outputs, folded_.results[i], reads));
    for (const pjrt::Event& read : reads) read.wait();
    for (size_t i = 0; i < results.size(); ++i)
      if (folded_.results[i].place >= 0) give_strides(results[i], program_->results[i].value);
    return results;
  }

  void make_reports(const Outputs& outputs) {
    std::vector<std::vector<Tensor>> inputs;
    std::vector<pjrt::Event> reads;
    for (const FoldedProgram::HostCall& report : folded_.after) {
      std::vector<Tensor>& own = inputs.emplace_back();
      for (const FoldedProgram::Result& from : report.inputs)
        own.push_back(from.place < 0 ? Tensor() : start_to_read(outputs, from, reads));
    }
    for (const pjrt::Event& read : reads) read.wait();
    for (size_t i = 0; i < inputs.size(); ++i) folded_.after[i].step(inputs[i]);
  }

  // LibTorch's strides, where these are not those of a fresh tensor.
  void give_strides(Tensor& result, int number) const {
    if (number < 0) return;
    const Geometry& geometry = program_->values[static_cast<size_t>(number)].geometry;
    if (result.strides() == at::IntArrayRef(geometry.strides) || result.numel() == 0) return;
    if (std::ranges::find(geometry.strides, 0) != geometry.strides.end()) return;  // repeated elements, each written
    result = at::empty_strided(geometry.sizes, geometry.strides, result.options()).copy_(result);
  }

  // What the function returns of what it was given, or found.
  Tensor result_on_host(const Program::Result& result, at::ArrayRef<Tensor> given) const {
    if (result.value < 0) return {};
    const auto& [lies_in, geometry] = program_->values[static_cast<size_t>(result.value)];
    const Program::Buffer& source = buffer(lies_in);
    if (source.kind == Kind::constant) return tensor_on(source.storage, geometry).clone();
    if (source.kind == Kind::argument) {
      const Tensor& argument = given[static_cast<size_t>(source.index)];
      return argument.as_strided(geometry.sizes, geometry.strides, geometry.offset + argument.storage_offset());
    }
    bring_home(source.storage);
    return result.is_origin ? source.origin : tensor_on(source.storage, geometry);
  }

  // A gradient of a variable stays on the devices until it is read.
  void set_gradients(Outputs& outputs) {
    for (const ProgramText::Gradient& given : text_.gradients) {
      const Program::Leaf& leaf = program_->leaves[static_cast<size_t>(given.leaf)];
      Tensor gradient;
      if (given.result >= 0) gradient = read_gradient(outputs, given.result, leaf);
      Tensor(leaf.tensor).mutable_grad() = std::move(gradient);
    }
  }

  Tensor read_gradient(Outputs& outputs, int result, const Program::Leaf& leaf) {
    const auto number = static_cast<size_t>(result);
    const stablehlo::Type& type = text_.types[number];
    Tensor gradient = at::empty(type.dims, type.dtype);
    std::vector<pjrt::Buffer> buffers;
    for (auto& of_device : outputs) buffers.push_back(std::move(of_device[number]));
    const at::IntArrayRef strides = program_->values[static_cast<size_t>(leaf.exit_value())].geometry.strides;
    if (!leaf.exit_spec || gradient.strides() != strides) {
      memory_->get(buffers[0], gradient.storage()).wait();
      give_strides(gradient, leaf.exit_value());
      return leaf.exit_spec ? make_mesh_tensor(leaf.exit_spec, std::move(gradient)) : gradient;
    }
    memory_->keep(gradient.storage(), type, std::move(buffers));
    return make_mesh_tensor(leaf.exit_spec, std::move(gradient));
  }

  std::shared_ptr<const Program> program_;
  FoldedProgram folded_;
  ProgramText text_;
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<RunKeys> keys_;
  uint64_t key_ = 0;  // of this run
  std::shared_ptr<const pjrt::LoadedExecutable> compiled_;
  std::set<const c10::StorageImpl*> mesh_memory_;
  std::vector<Argument> arguments_;  // as text_.arguments
};

}  // namespace

std::shared_ptr<const pjrt::LoadedExecutable> DeviceCompiler::compiled(const std::string& text) {
  const std::lock_guard lock(mutex_);
  auto& known = compiled_[text];
  if (!known)
    known = std::make_shared<const pjrt::LoadedExecutable>(
        memory_->client().compile(text, {.replicas = memory_->num_devices(), .devices = memory_->device_ids()}));
  return known;
}

std::unique_ptr<ProgramRunner> DeviceCompiler::compile(std::shared_ptr<const Program> program) {
  FoldedProgram folded = fold_replicas(*program, memory_->num_devices());
  ProgramText text = write_program(folded.program, {.name = program->name, .replicas = memory_->num_devices()});
  auto executable = compiled(text.module);
  return std::make_unique<DeviceProgram>(std::move(program), std::move(folded), std::move(text), memory_, keys_,
                                         std::move(executable));
}

}  // namespace tutti::tpu
