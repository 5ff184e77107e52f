#include "tutti/function/replay.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/distribute/intra_op_threads.h"
#include "tutti/function/out_form.h"
#include "tutti/function/pointwise_step.h"
#include "tutti/function/pooling_groups.h"
#include "tutti/function/surroundings.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using Kind = Program::Buffer::Kind;

constexpr int kTimedRuns = 3;
constexpr double kSecondsWorthAThread = 50e-6;  // of a segment: waking a thread takes tens of microseconds

// Below autograd: what a recording saw.
struct BelowAutograd {
  c10::impl::ForceDispatchKeyGuard keys{c10::default_included_set,
                                        c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  at::NoGradGuard no_grad;
};

c10::DataPtr pointer_to(const void* data, c10::Device device) { return {const_cast<void*>(data), device}; }

// The same, known as what it is to the allocator that pinned it, which keeps it while a GPU reads it.
c10::DataPtr pointer_to_pinned(const void* data, const Tensor& argument) {
  return {const_cast<void*>(data), argument.storage().data_ptr().get_context(), &c10::detail::deleteNothing, c10::kCPU};
}

bool takes_tensors(const Program::Call& call) {
  return std::any_of(call.arguments.begin(), call.arguments.end(), [](const Program::Operand& argument) {
    return argument.kind != Program::Operand::Kind::constant;
  });
}

bool reads_shapes_alone(const Program::Call& call) {
  return call.name == "aten::ones_like" || call.name == "aten::zeros_like" || call.name == "aten::full_like";
}

// -1: an undefined tensor, as of a gradient that nobody asked for.
int only_value(const Program::Operand& result) { return result.values.empty() ? -1 : result.values[0]; }

// Whether LibTorch has nothing to do to the elements before an op reads them.
bool has_plain_keys(const Geometry& geometry) { return !geometry.conjugate && !geometry.negative && !geometry.zero; }

}  // namespace

Replay::Replay(std::shared_ptr<const Program> program, std::shared_ptr<ReplayMemory> memory, bool gpu_graphs)
    : program_(std::move(program)),
      is_on_host_(std::ranges::all_of(program_->buffers, [](const auto& buffer) { return buffer.device.is_cpu(); })),
      memory_(memory ? std::move(memory) : std::make_shared<ReplayMemory>()) {
  choose_places();
  make_values();
  make_steps(join_poolings(*program_, group_calls(*program_, calls_to_run()),
                           [&](const Program::Operand& operand) { return build(operand); }));
  make_phases();
  plan_block();
  find_allocated();
  if (!gpu_graphs || is_on_host_) return;
  for (Phase& phase : phases_)
    for (Segment& segment : phase.segments) make_graphs(segment);
}

void Replay::choose_places() {
  for (const Program::Buffer& buffer : program_->buffers) {
    const bool somebodys = buffer.kind == Kind::captured || buffer.kind == Kind::constant;
    const bool temporary = buffer.kind == Kind::temporary;
    places_.push_back(somebodys ? Place::kept : temporary ? Place::own : Place::bound);
    storages_.push_back(somebodys ? buffer.storage : storage_of(buffer.bytes, {nullptr, buffer.device}));
  }
  const auto give_out = [&](int result) {
    if (result >= 0 && buffer(value(result).buffer).kind == Kind::temporary) place(value(result).buffer) = Place::given;
  };
  for (const Program::Result& result : program_->results) give_out(result.value);
  for (const Program::Leaf& leaf : program_->leaves) std::ranges::for_each(leaf.exit_values, give_out);
  given_.resize(program_->buffers.size());
}

// A tensor that is made of numbers and shapes alone and never written again is the same in each run.
bool Replay::is_folded(const Program::Call& call) const {
  if (!call.op || call.draws || call.writes.size() != 1 || (takes_tensors(call) && !reads_shapes_alone(call)) ||
      !on_host(call))
    return false;
  const int made = call.writes[0];
  if (places_[static_cast<size_t>(made)] == Place::given) return false;
  return std::all_of(program_->calls.begin(), program_->calls.end(), [&](const Program::Call& other) {
    return &other == &call || std::find(other.writes.begin(), other.writes.end(), made) == other.writes.end();
  });
}

void Replay::fold(const Program::Call& call) {
  Stack stack;
  for (const Program::Operand& argument : call.arguments) stack.push_back(build(argument));
  call.op->callBoxed(stack);
  place(call.writes[0]) = Place::kept;
  take(call.results[0].values[0], std::move(stack[0]).toTensor());
}

// Without views, which are prepared, and host memory without a value, which is planned.
std::vector<const Program::Call*> Replay::calls_to_run() {
  const BelowAutograd below;
  std::vector<const Program::Call*> calls;
  for (const Program::Call& call : program_->calls) {
    if (call.is_view) continue;
    if (call.gives_fresh_memory && on_host(call)) {
      if (place(call.writes[0]) == Place::own) place(call.writes[0]) = Place::block;
    } else if (is_folded(call)) {
      fold(call);
    } else {
      calls.push_back(&call);
    }
  }
  return calls;
}

void Replay::make_values() {
  for (const Program::Value& value : program_->values)
    values_.push_back(tensor_on(storages_[static_cast<size_t>(value.buffer)], value.geometry));
}

at::IValue Replay::build(const Program::Operand& operand) const {
  using OperandKind = Program::Operand::Kind;
  // LibTorch takes one tensor in two places for an overlap, even where it has no elements, as two of one value had not.
  const auto tensor = [&](int value) {
    if (value < 0) return Tensor();
    const Tensor& prepared = values_[static_cast<size_t>(value)];
    return prepared.numel() ? prepared : tensor_on(prepared.storage(), geometry_of(prepared));
  };
  switch (operand.kind) {
    case OperandKind::constant: return operand.constant;
    case OperandKind::tensor: return tensor(operand.values[0]);
    case OperandKind::tensors: {
      c10::List<Tensor> list;
      for (const int value : operand.values) list.push_back(tensor(value));
      return list;
    }
    case OperandKind::optional_tensors: {
      c10::List<std::optional<Tensor>> list;
      for (const int value : operand.values)
        list.push_back(value < 0 ? std::nullopt : std::optional<Tensor>(tensor(value)));
      return list;
    }
  }
  return {};
}

void Replay::make_steps(const std::vector<CallGroup>& groups) {
  const BelowAutograd below;  // kernels of our own are tried on plain tensors
  for (const CallGroup& group : groups) steps_.push_back(make_step(group));
}

Replay::Step Replay::make_step(const CallGroup& group) {
  Step step{group.calls};
  for (const Program::Call* const call : group.calls)
    for (const int written : call->writes)
      if (buffer(written).maker >= 0 && &program_->calls[static_cast<size_t>(buffer(written).maker)] == call)
        step.makes.push_back(written);
  if (group.ops.empty() && !group.pooling) {
    for (const Program::Operand& argument : step.call().arguments) step.arguments.push_back(build(argument));
    choose_form(step);
  } else {
    step.form = Form::joined;
    const auto tensor = [&](int number) { return values_[static_cast<size_t>(number)]; };
    const auto argument = [&](const Program::Operand& operand) { return build(operand); };
    const JoinedCalls::Memory memory{tensor, argument};
    step.joined = group.pooling ? pooling_step(*program_, group, memory) : pointwise_step(*program_, group, memory);
  }
  if (group.pooling && group.pooling->gradient >= 0)
    step.also_reads = {value(group.pooling->pooled).buffer, value(group.pooling->where).buffer};
  if (step.form == Form::joined || step.form == Form::out)
    for (const int made : step.makes)
      if (place(made) == Place::own) place(made) = Place::block;
  return step;
}

void Replay::choose_form(Step& step) {
  const Program::Call& call = step.call();
  bool may_be_proven = false;
  if (call.gives_fresh_memory) {
    step.form = Form::fresh_memory;
    return;
  }
  if (!call.parts.empty()) {
    step.form = Form::control_flow;
    step.control_flow =
        std::make_unique<ControlFlowStep>(call, [&](int value) { return values_[static_cast<size_t>(value)]; });
  } else if (!call.op) {
    step.form = Form::host_step;
    step.inputs = step.arguments[0].toTensorVector();
  } else if (!step.makes.empty()) {
    step.form = Form::functional;
    // What also writes elsewhere, as batch_norm its running statistics, cannot be run twice to compare.
    may_be_proven = on_host(call) && step.makes.size() == call.writes.size() && !call.draws && !call.makes_lists();
    if (may_be_proven) step.out_op = out_form_of(*call.op);
  }
  step.device = device_of(call);
  if (may_be_proven && !step.device.empty()) step.native = native_kernel_of(call.name, step.arguments);
  if (!step.out_op && !step.native) return;
  step.form = Form::out;
  step.out_arguments = step.arguments;
  for (const Program::Operand& result : call.results) step.out_arguments.push_back(build(result));
}

// Where all of its operands lie. Empty: on several, or LibTorch has something to do to their elements before.
c10::DispatchKeySet Replay::device_of(const Program::Call& call) const {
  if (!call.op || !takes_tensors(call)) return {};
  std::optional<c10::Device> device;
  for (const auto* operands : {&call.arguments, &call.results})
    for (const Program::Operand& operand : *operands)
      for (const int number : operand.values) {
        if (number < 0) continue;
        const auto& [lies_in, geometry] = value(number);
        if (!has_plain_keys(geometry) || device.value_or(buffer(lies_in).device) != buffer(lies_in).device) return {};
        device = buffer(lies_in).device;
      }
  if (!device) return {};
  return c10::DispatchKeySet(c10::computeDispatchKey(at::kFloat, at::kStrided, *device));
}

void Replay::take_block() {
  block_ = memory_->take(planned_bytes_);
  if (block_.data.get() == bound_to_) return;
  bound_to_ = block_.data.get();
  for (const auto& [number, offset] : planned_)
    if (place(number) == Place::block)
      storage(number).set_data_ptr_noswap(pointer_to(static_cast<char*>(block_.data.get()) + offset, c10::kCPU));
}

void Replay::bind(at::ArrayRef<Tensor> arguments) {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] != Place::bound) continue;
    const Program::Buffer& bound = program_->buffers[i];
    const void* data = nullptr;
    if (bound.kind == Kind::argument) {
      const Tensor& argument = arguments[static_cast<size_t>(bound.index)];
      if (argument.numel()) data = bound.written ? argument.mutable_data_ptr() : argument.const_data_ptr();
      if (!is_on_host_ && bound.device.is_cpu()) {
        storage(static_cast<int>(i)).set_data_ptr_noswap(pointer_to_pinned(data, argument));
        continue;
      }
    } else if (bound.kind == Kind::replica) {
      const Tensor own = local(program_->meshes[static_cast<size_t>(bound.index)].tensor);
      data = bound.written ? own.storage().mutable_data() : own.storage().data();
    } else if (const Tensor* const piece = gradient_piece(*program_, bound)) {
      data = piece->storage().mutable_data();
    }
    storage(static_cast<int>(i)).set_data_ptr_noswap(pointer_to(data, bound.device));
  }
}

void Replay::find_allocated() {
  std::vector<bool> here;
  for (const Place place : places_) here.push_back(place == Place::given);
  for (const Step& step : steps_)
    if (step.form == Form::functional || step.form == Form::control_flow)
      for (const int made : step.makes) here[static_cast<size_t>(made)] = false;
  allocated_.clear();
  for (size_t i = 0; i < here.size(); ++i)
    if (here[i]) allocated_.push_back(static_cast<int>(i));
}

void Replay::allocate_results() {
  for (const int number : allocated_)
    storage(number).set_data_ptr_noswap(allocate_on(buffer(number).device, buffer(number).bytes));
}

void Replay::call(Step& step, const c10::OperatorHandle& op, const Stack& arguments) {
  step.stack.assign(arguments.begin(), arguments.end());
  if (step.device.empty())
    op.callBoxed(step.stack);
  else
    op.redispatchBoxed(step.device, &step.stack);
}

// The memory that a call has allocated becomes the buffer's.
void Replay::take(int number, const Tensor& made) {
  const int target = value(number).buffer;
  c10::StorageImpl& own = *made.storage().unsafeGetStorageImpl();
  if (shows(made, value(number).geometry) && made.storage().use_count() == 1) {
    storage(target).set_nbytes(own.nbytes());
    storage(target).set_data_ptr_noswap(std::move(own._mutable_data_ptr_no_checks()));
    return;
  }
  storage(target).set_data_ptr_noswap(allocate_on(buffer(target).device, buffer(target).bytes));
  values_[static_cast<size_t>(number)].copy_(made);
}

void Replay::take_results(Step& step) {
  const auto made_here = [&](int number) {
    return number >= 0 && std::find(step.makes.begin(), step.makes.end(), value(number).buffer) != step.makes.end();
  };
  for (size_t i = 0; i < step.call().results.size(); ++i) {
    const Program::Operand& result = step.call().results[i];
    if (result.kind == Program::Operand::Kind::tensor) {
      if (made_here(result.values[0])) take(result.values[0], std::move(step.stack[i]).toTensor());
    } else if (result.kind == Program::Operand::Kind::tensors) {
      auto list = std::move(step.stack[i]).toTensorVector();
      for (size_t k = 0; k < list.size(); ++k)
        if (made_here(result.values[k])) take(result.values[k], std::exchange(list[k], {}));
    }
  }
}

void Replay::run_functional(Step& step) {
  call(step, *step.call().op, step.arguments);
  take_results(step);
}

// As much as the buffer has in the end: what is written to it may have made it larger.
void Replay::take_fresh_memory(const Step& step) {
  for (const int made : step.makes)
    if (place(made) == Place::own)
      storage(made).set_data_ptr_noswap(allocate_on(buffer(made).device, buffer(made).bytes));
}

void Replay::run_control_flow(Step& step) {
  for (Tensor& result : step.control_flow->run()) step.stack.emplace_back(std::move(result));
  take_results(step);
}

void Replay::run_out(Step& step) {
  step.native ? step.native(step.out_arguments) : call(step, *step.out_op, step.out_arguments);
}

bool Replay::gave_the_same(const Step& step) const {
  for (size_t i = 0; i < step.call().results.size(); ++i) {
    const int number = only_value(step.call().results[i]);
    if (number < 0) continue;
    const Geometry& geometry = value(number).geometry;
    const Tensor& wanted = step.stack[i].toTensor();
    const Tensor& made = step.out_arguments[step.arguments.size() + i].toTensor();
    if (!shows(wanted, geometry) || !shows(made, geometry) || !wanted.is_non_overlapping_and_dense()) return false;
    const auto bytes = static_cast<size_t>(extent_bytes(geometry));
    if (bytes && std::memcmp(wanted.const_data_ptr(), made.const_data_ptr(), bytes) != 0) return false;
  }
  return true;
}

// The first run makes each result in both ways. Where they differ in a bit, the op's usual form stays.
void Replay::prove(Step& step) {
  std::vector<const void*> memory;
  for (const int made : step.makes) memory.push_back(storage(made).data());
  bool same = true;
  try {
    run_out(step);
  } catch (const std::exception&) {
    same = false;
  }
  for (size_t i = 0; i < memory.size(); ++i) {  // some resize what they are given, and resize it back
    same &= storage(step.makes[i]).data() == memory[i];
    storage(step.makes[i]).set_nbytes(static_cast<size_t>(buffer(step.makes[i]).bytes));
  }
  call(step, *step.call().op, step.arguments);
  if (same && gave_the_same(step)) {
    step.proven = true;
    return;
  }
  step.form = Form::functional;
  for (const int made : step.makes)
    if (place(made) == Place::block) place(made) = Place::own;
  find_allocated();
  for (size_t i = 0; i < step.call().results.size(); ++i)  // the other form may have given it other sizes
    if (const int number = only_value(step.call().results[i]); number >= 0)
      values_[static_cast<size_t>(number)].unsafeGetTensorImpl()->set_sizes_and_strides(
          value(number).geometry.sizes, value(number).geometry.strides, value(number).geometry.offset);
  take_results(step);
}

void Replay::run_step(Step& step) {
  switch (step.form) {
    case Form::in_place: call(step, *step.call().op, step.arguments); break;
    case Form::functional: run_functional(step); break;
    case Form::fresh_memory: take_fresh_memory(step); break;
    case Form::out: step.proven ? run_out(step) : prove(step); break;
    case Form::host_step: step.call().host_step(step.inputs); break;
    case Form::joined: step.joined->run(); break;
    case Form::control_flow: run_control_flow(step); break;
  }
  step.stack.clear();
  for (const int unused : step.frees) free_memory(unused);
}

void Replay::free_memory(int number) {
  if (place(number) == Place::own) storage(number).set_data_ptr_noswap({nullptr, buffer(number).device});
}

const c10::Storage& Replay::give(int number) {
  c10::Storage& given = given_[static_cast<size_t>(number)];
  if (!given)
    given = storage_of(static_cast<int64_t>(storage(number).nbytes()),
                       std::move(storage(number)._mutable_data_ptr_no_checks()));
  return given;
}

Tensor Replay::result(int number, at::ArrayRef<Tensor> arguments) {
  if (number < 0) return {};
  const auto& [lies_in, geometry] = value(number);
  switch (buffer(lies_in).kind) {
    case Kind::captured: return tensor_on(storages_[static_cast<size_t>(lies_in)], geometry);
    case Kind::replica:
      return tensor_on(local(program_->meshes[static_cast<size_t>(buffer(lies_in).index)].tensor).storage(), geometry);
    case Kind::argument: return tensor_on_argument(arguments[static_cast<size_t>(buffer(lies_in).index)], geometry);
    case Kind::gradient: return tensor_on(gradient_piece(*program_, buffer(lies_in))->storage(), geometry);
    case Kind::constant: return tensor_on(storages_[static_cast<size_t>(lies_in)], geometry).clone();
    case Kind::temporary: return tensor_on(give(lies_in), geometry);
  }
  return {};
}

void Replay::set_gradients(at::ArrayRef<Tensor> arguments) {
  for (const Program::Leaf& leaf : program_->leaves) {
    if (!leaf.changes) continue;
    Tensor variable = leaf.tensor;
    Components pieces;
    for (const int number : leaf.exit_values) pieces.push_back(result(number, arguments));
    Tensor gradient;
    if (leaf.exit_spec)
      gradient = make_mesh_tensor(leaf.exit_spec, std::move(pieces), leaf.exit_strides);
    else if (!pieces.empty())
      gradient = std::move(pieces[0]);
    variable.mutable_grad() = std::move(gradient);
  }
}

// Of mesh tensors that the program writes, replicas lose their shares, so that nothing is copied; what replicas wrote
// before is read.
void Replay::enter_meshes() {
  for (const Program::MeshValue& mesh : program_->meshes) {
    if (mesh.written)
      mesh_impl(mesh.tensor).write();
    else if (!in_replica_view() && (mesh.read || mesh.shared))
      mesh_impl(mesh.tensor).read();
  }
}

void Replay::leave_meshes() {
  for (const Program::MeshValue& mesh : program_->meshes) {
    if (mesh.written) mesh_impl(mesh.tensor).finish_write();
    if (program_->runs_replicas) const ReplicasCompute a_period_of(mesh_impl(mesh.tensor).mesh_shape()->clock);
  }
}

void Replay::run_segment(Segment& segment) {
  const BelowAutograd below;
  size_t next = segment.begin;
  bool has_failed = false;
  for (Graphed& graph : segment.graphs) {
    run_steps(next, graph.begin);
    if (!graph.steps->launch([&] { run_steps(graph.begin, graph.end, &graph.last_begun); }))
      run_steps(graph.begin, graph.end);
    has_failed |= graph.steps->failure() != nullptr;
    next = graph.end;
  }
  run_steps(next, segment.end);
  if (has_failed) make_other_graphs(segment);
}

// `last_begun`: is given the number of the step that throws; `end` where none does.
void Replay::run_steps(size_t begin, size_t end, size_t* last_begun) {
  std::optional<IntraOpThreads> one_thread;
  c10::OptionalDeviceGuard on_gpu;
  for (size_t i = begin; i < end; ++i) {
    Step& step = steps_[i];
    if (step.call().one_thread != one_thread.has_value()) {
      one_thread.reset();
      if (step.call().one_thread) one_thread.emplace(1);
    }
    if (!is_on_host_ && step.call().gpu >= 0) on_gpu.reset_device(gpu_device(step.call().gpu));
    at::GradMode::set_enabled(step.call().grad_mode);
    if (last_begun) *last_begun = i;
    try {
      run_step(step);
    } catch (c10::Error& error) {
      error.add_context(str("in ", step.call().name, ", call ", step.calls[0] - program_->calls.data(),
                            " of a function that was recorded"));
      throw;
    }
  }
  if (last_begun) *last_begun = end;
}

// An error is that of the first replica that has one.
void Replay::run_at_once(Phase& phase) {
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(phase.segments.size());
  program_->on_replicas([&] {
    const IntraOpThreads one_thread(1);
    for (size_t i = next++; i < phase.segments.size(); i = next++) try {
        run_segment(phase.segments[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void Replay::run_phase(Phase& phase) {
  if (phase.at_once) return run_at_once(phase);
  const auto begin = std::chrono::steady_clock::now();
  for (Segment& segment : phase.segments) run_segment(segment);
  if (phase.segments.size() == 1 || !program_->on_replicas || !is_on_host_ || phase.num_runs > kTimedRuns) return;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (phase.num_runs++ > 0) phase.least_seconds = std::min(phase.least_seconds, taken.count());  // the first one proves
  phase.at_once = phase.num_runs > kTimedRuns &&
                  phase.least_seconds > kSecondsWorthAThread * static_cast<double>(phase.segments.size());
}

void Replay::run_phases() {
  for (Phase& phase : phases_) {
    run_phase(phase);
    for (const int unused : phase.frees) free_memory(unused);
  }
}

Tensors Replay::run(at::ArrayRef<Tensor> arguments) {
  return run_with(arguments, [&] { run_phases(); });
}

Tensors Replay::run_with(at::ArrayRef<Tensor> arguments, FunctionRef<void()> steps) {
  take_block();
  enter_meshes();
  bind(arguments);
  allocate_results();
  bump_versions(*program_, arguments);
  struct TellOfRuns {
    const Program& program;
    ~TellOfRuns() {
      for (const auto& group : program.unreduced) group->note_run();
    }
  } const behind_gradients{*program_};  // which are set as they are, without a reduction
  struct Leave {
    Replay& replay;
    ~Leave() {
      replay.memory_->give_back(std::move(replay.block_));
      replay.leave_meshes();
    }
  };
  {
    const Leave at_the_end{*this};
    steps();
  }
  Tensors results;
  for (const Program::Result& made : program_->results)
    results.push_back(made.is_origin ? buffer(value(made.value).buffer).origin : result(made.value, arguments));
  set_gradients(arguments);
  for (const Program::Sent& sent : program_->sent) sent.counter->record(sent.bytes);
  for (c10::Storage& given : given_) given = {};  // the caller's alone
  return results;
}

}  // namespace tutti
