// How a recorder records the parts of a function that a call of its program runs: the branches of a cond.

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/zero.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/function/memory_watch.h"
#include "tutti/function/recordable_calls.h"
#include "tutti/function/recorder.h"
#include "tutti/function/recorder_readable.h"
#include "tutti/function/sub_program.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using Kind = Program::Buffer::Kind;

// How the tensor that an argument of a part is was first seen there; all of its memory where only a host step writes
// it.
Geometry geometry_of_argument(const Program& part, int argument) {
  const auto is_it = [&](const Program::Buffer& buffer) {
    return buffer.kind == Kind::argument && buffer.index == argument;
  };
  for (const Program::Value& value : part.values)
    if (is_it(part.buffers[static_cast<size_t>(value.buffer)])) return value.geometry;
  const int64_t bytes = std::find_if(part.buffers.begin(), part.buffers.end(), is_it)->bytes;
  return {at::kByte, {bytes}, {1}, 0, false, false};
}

}  // namespace

Recorder::PartScope::PartScope(Recorder& recorder, Part& part) : recorder_(recorder), part_(part) {
  at::autocast::clear_cache();  // what it keeps would be used in other parts
  for (const auto& [leaf, had_gradient] : std::vector(recorder_.leaves_))
    part_.gradients.emplace_back(leaf, gradient_of(leaf));
  recorder_.outside_.for_each([&](const Tensor& alias, const OutsideTensors::Used&) {
    if (is_leaf_with_gradient(alias)) part_.gradients.emplace_back(alias, gradient_of(alias));
  });
  part_.number = ++recorder_.num_parts_;
  recorder_.parts_.push_back(&part_);
}

Recorder::PartScope::~PartScope() {
  recorder_.parts_.pop_back();
  part_.end = recorder_.num_parts_ + 1;
  at::autocast::clear_cache();
  if (part_.undo) undo();
  if (!finished_) tell_of_exception();
}

void Recorder::PartScope::undo() {
  part_.undo->undo();
  recorder_.seeds_ = {};
  for (auto& [leaf, gradient] : part_.gradients)
    if (!gradient_of(leaf).is_same(gradient)) leaf.mutable_grad() = gradient;
}

void Recorder::PartScope::tell_of_exception() {
  const Error why(ErrorCode::failed_precondition,
                  str(recorder_.name_, ": an exception left ", part_.what,
                      " and was caught in the function, so that a replay would not do what that did before; catch "
                      "it outside of the function"));
  if (recorder_.throws())
    recorder_.failed_part_ = why;
  else if (!part_.undo)
    recorder_.refuse(why);
}

std::vector<c10::VariableVersion>& Recorder::written_versions() {
  return parts_.empty() ? program_.written_versions : parts_.back()->written_versions;
}

// Requires: the part is being recorded.
bool Recorder::is_made_in(const Part& part, int number) const {
  return states_[static_cast<size_t>(number)].part >= part.number;
}

bool Recorder::is_undone() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part* part) { return part->undo.has_value(); });
}

// Whether what is done now may use the buffer.
bool Recorder::is_in_sight(int number) const {
  const int made_in = states_[static_cast<size_t>(number)].part;
  return made_in == 0 ||
         std::any_of(parts_.begin(), parts_.end(), [&](const Part* part) { return part->number == made_in; });
}

void Recorder::refuse_tensor_of_part(int number) const {
  if (is_in_sight(number)) return;
  const State& made = states_[static_cast<size_t>(number)];
  throw Error(ErrorCode::failed_precondition,
              str(name_, ": a tensor of ",
                  made.values.empty() ? "no elements"
                                      : to_string(program_.values[static_cast<size_t>(made.values[0])].geometry),
                  " that ", made.made_by,
                  " made in a branch of cond, or in a loop, is used outside of it, where a replay may not have it; "
                  "return it"));
}

void Recorder::refuse_parts(const char* what) const {
  if (program_.compiler)
    throw Error(ErrorCode::unimplemented, str(name_, ": ", what,
                                              " cannot be compiled for accelerators yet; compute both and choose by "
                                              "torch::where"));
}

void Recorder::note_write_in_parts(const Tensor& tensor) {
  const int number = known_buffer(tensor);
  for (Part* const part : parts_) {
    if (is_made_in(*part, number)) continue;
    if (part->undo) part->undo->before_write(tensor);
    if (at::GradMode::is_enabled()) part->written_in_graph.push_back(tensor);
  }
}

void Recorder::note_draw_in_parts(at::ArrayRef<at::IValue> arguments) {
  for (const at::IValue& argument : arguments)
    if (argument.isGenerator())
      for (Part* const part : parts_)
        if (part->undo) part->undo->before_draw(argument.toGenerator());
}

void Recorder::note_leaf(const Tensor& tensor) {
  if (!is_leaf_with_gradient(tensor)) return;
  leaves_.emplace_back(tensor, gradient_of(tensor).defined());
  note_gradient_in_parts(tensor);
}

void Recorder::note_gradient_in_parts(const Tensor& tensor) {
  if (!is_leaf_with_gradient(tensor)) return;
  for (Part* const part : parts_) part->gradients.emplace_back(tensor, gradient_of(tensor));
}

// What a host step that does not run leaves without a value becomes zeros, which are indices too.
void Recorder::clear_unwritten(const Program::Call& host_step) {
  for (const int written : host_step.writes) {
    if (is_made_outside(written) || buffer(written).kind != Kind::temporary) continue;
    const NotRecorded keys;
    unwatched_bytes(*state(written).storage.unsafeGetStorageImpl()).zero_();
  }
}

// What C++ wrote before a part, both know.
void Recorder::settle_fresh_memory() {
  for (int number = 0; number < static_cast<int>(states_.size()); ++number) {
    if (!state(number).fresh || !is_in_sight(number) || state(number).storage.use_count() == 1) continue;
    keep_what_cpp_wrote(number);
    close(number);
  }
}

bool Recorder::read_flag(const Tensor& predicate) {
  Program::Call reading;
  reading.reads.push_back(known_buffer(predicate));
  const Readable open(*this, reading);
  const NotRecorded keys;
  return predicate.item<bool>();
}

void Recorder::record_part(Part& part, RunPart run) {
  PartScope scope(*this, part);
  part.returned = run();
  if (!is_over()) attempt([&] { end_part(part); });
  scope.finish();
}

// Throws: what the part throws, with a word on why it ran.
void Recorder::record_undone(Part& part, RunPart run) {
  const std::string why = ". It is " + part.what + ", which is not taken, and runs to be recorded";
  part.undo.emplace();
  try {
    record_part(part, run);
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + why, error.location());
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::failed_precondition, error.what_without_backtrace() + why);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::failed_precondition, error.what() + why);
  }
}

// `what` of them it is: "result ? of …".
void Recorder::refuse_gradients_through(const std::string& what, at::ArrayRef<Tensor> values) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (at::GradMode::is_enabled() && values[i].defined() && values[i].requires_grad())
      throw Error(ErrorCode::invalid_argument,
                  str(name_, ": ", std::string(what).replace(what.find('?'), 1, std::to_string(i)), ", of shape ",
                      str_list(values[i].sizes()),
                      ", needs a gradient, which does not go through it in a recorded function; give its detach(), "
                      "compute the gradient inside, or choose by torch::where"));
}

void Recorder::end_part(Part& part) {
  refuse_gradients_through("result ? of " + part.what, part.returned.leaves);
  part.results = take_apart(part.returned.leaves);
  for (const Tensor& result : part.results.plain) {
    part.values.push_back(value_of(result));
    if (part.values.back() >= 0) keep_what_cpp_wrote(program_.values[static_cast<size_t>(part.values.back())].buffer);
  }
  refuse_changed_gradients(part);
  refuse_written_graphs(part);
}

void Recorder::refuse_changed_gradients(const Part& part) const {
  for (const auto& [leaf, gradient] : part.gradients)
    if (!gradient_of(leaf).is_same(gradient))
      throw Error(ErrorCode::failed_precondition,
                  str(name_, ": ", part.what, " leaves another grad() of a variable of shape ", str_list(leaf.sizes()),
                      " than it found, which cannot be recorded; call backward() and zero_grad() outside of it, or "
                      "compute with autograd::grad() or gradients()"));
}

// The graph would go through what is not done in each replay.
void Recorder::refuse_written_graphs(const Part& part) const {
  for (const Tensor& written : part.written_in_graph)
    if (written.requires_grad())
      throw Error(ErrorCode::invalid_argument,
                  str(name_, ": ", part.what, " writes in place to a tensor of shape ", str_list(written.sizes()),
                      " from outside that needs a gradient, which does not go through it in a recorded function; "
                      "return the new value's detach(), write under NoGradGuard, or choose by torch::where"));
}

void Recorder::refuse_other_results(const Part& one, const Part& other) const {
  const auto differ = [&](const std::string& a, const std::string& b) {
    throw Error(ErrorCode::invalid_argument, str(name_, ": ", one.what, " returns ", a, ", and ", other.what, " ", b,
                                                 "; both must return the same shapes and dtypes"));
  };
  if (one.returned.form != other.returned.form)
    differ("a structure " + one.returned.form, "one of " + other.returned.form);
  const auto &a = one.returned.leaves, &b = other.returned.leaves;
  for (size_t i = 0; i < a.size(); ++i) {
    if (text_of_kind(a[i]) != text_of_kind(b[i])) differ(str(text_of_kind(a[i]), " as result ", i), text_of_kind(b[i]));
    if (one.results.values[i].spec != other.results.values[i].spec)
      differ(str("result ", i, " in one layout"), "in another one");
  }
}

SubProgram Recorder::program_of(Part& part, std::vector<int> inputs) {
  const auto is_made_inside = [&](int number) {
    const int made_in = state(number).part;
    return part.number <= made_in && made_in < part.end;
  };
  SubProgram sub = sub_program(program_, part.calls, part.values, is_made_inside, std::move(inputs));
  sub.program.sent = std::move(part.sent);
  sub.program.written_versions = std::move(part.written_versions);
  return sub;
}

// Its first arguments, `num_bound` of them, get other memory each time.
void Recorder::add_part(Program::Call& call, const char* name, SubProgram sub, size_t num_bound) {
  Program::Operand memory{.kind = Program::Operand::Kind::tensors};
  for (size_t i = num_bound; i < sub.inputs.size(); ++i) {
    const Geometry geometry = geometry_of_argument(sub.program, static_cast<int>(i));
    memory.values.push_back(value_of(tensor_on(state(sub.inputs[i]).storage, geometry)));
    add_number(call.reads, sub.inputs[i]);
  }
  for (const Program::Buffer& used : sub.program.buffers)
    if (used.kind == Kind::argument && used.written && used.index >= static_cast<int>(num_bound))
      add_number(call.writes, sub.inputs[static_cast<size_t>(used.index)]);
  call.arguments.push_back(std::move(memory));
  call.parts.push_back({name, std::make_shared<const Program>(std::move(sub.program))});
}

// Copies, which no call shows.
Tensors Recorder::own_values(at::ArrayRef<Tensor> values) {
  Tensors copies;
  for (const Tensor& value : values) {
    if (!value.defined()) {
      copies.emplace_back();
      continue;
    }
    Program::Call reading;
    if (const int known = known_buffer(value); known >= 0) reading.reads.push_back(known);
    const Readable open(*this, reading);
    const NotRecorded keys;
    const at::NoGradGuard no_grad;
    copies.push_back(value.clone(at::MemoryFormat::Contiguous));
  }
  return copies;
}

Tensors Recorder::make_results(Program::Call& call, at::ArrayRef<Tensor> values) {
  Tensors made = own_values(values);
  for (const Tensor& own : made) {
    if (own.defined()) {
      const int number = add_buffer({.kind = Kind::temporary,
                                     .bytes = static_cast<int64_t>(own.storage().nbytes()),
                                     .maker = static_cast<int>(calls().size())},
                                    own.storage());
      state(number).made_by = call.name;
      call.writes.push_back(number);
    }
    call.results.push_back(operand_of(own));
    if (own.defined()) close(call.writes.back());
  }
  return made;
}

std::optional<Recorder::FlatTensors> Recorder::cond(const Tensor& predicate, RunPart if_true, RunPart if_false) {
  std::array<Part, 2> parts = {Part{"the branch of cond for true"}, Part{"the branch of cond for false"}};
  const std::array<RunPart, 2> run = {if_true, if_false};
  Program::Call call{.name = "cond"};
  call.one_thread = num_threads_ > 1 && at::get_num_threads() == 1;
  size_t taken = 0;
  const bool goes_on = attempt([&] {
    refuse_parts("cond");
    settle_fresh_memory();
    call.arguments.push_back({.kind = Program::Operand::Kind::tensor, .values = {value_of(predicate)}});
    call.reads.push_back(buffer_of(predicate));
    taken = read_flag(predicate) ? 0 : 1;
    record_undone(parts[1 - taken], run[1 - taken]);
  });
  if (!goes_on) return {};
  record_part(parts[taken], run[taken]);
  FlatTensors results = parts[taken].returned;
  if (is_over()) return results;
  attempt([&] {
    refuse_other_results(parts[0], parts[1]);
    add_part(call, "true", program_of(parts[0]));
    add_part(call, "false", program_of(parts[1]));
    const Tensors made = put_together(make_results(call, parts[taken].results.plain), parts[taken].results.values);
    results.leaves.assign(made.begin(), made.end());
    add_call(std::move(call));
  });
  return results;
}

void Recorder::replicas_run(ParallelCall on_replicas) {
  if (in_part())
    refuse(Error(ErrorCode::unimplemented,
                 name_ +
                     ": run is called in a branch of cond, or in a loop, which cannot be recorded; call it outside, "
                     "and cond in the replicas' function"));
  program_.on_replicas = std::move(on_replicas);
}

void Recorder::compile_by(std::shared_ptr<ProgramCompiler> compiler) {
  if (program_.compiler && program_.compiler != compiler)
    throw Error(ErrorCode::unimplemented,
                name_ + ": runs the replicas of two strategies whose programs are compiled; make two functions");
  program_.compiler = std::move(compiler);
  for (const Program::Call& call : program_.calls)
    if (!call.parts.empty()) refuse_parts(call.name.c_str());
}

}  // namespace tutti
