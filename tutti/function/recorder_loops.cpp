// How a recorder records a loop: its condition and its body are parts of one call.

#include <ATen/Parallel.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/function/compare.h"
#include "tutti/function/recordable_calls.h"
#include "tutti/function/recorder.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

struct Recorder::LoopParts {
  Program::Call call{.name = "while_loop"};
  TakenApart state = {};                      // of the next iteration, in memory that nobody else has
  std::vector<std::vector<int>> inputs = {};  // of the condition and the body, behind the state
};

void Recorder::while_loop(Loop& loop) {
  LoopParts parts;
  if (!attempt([&] { begin_loop(parts, loop); })) return;
  for (size_t first = states_.size(); record_iteration(parts, loop); first = states_.size()) free_unused(first);
  if (is_over()) return;
  attempt([&] {
    const auto& limit = loop.maximum_iterations;
    parts.call.arguments.push_back({.constant = limit ? at::IValue(*limit) : at::IValue()});
    const Tensors made = put_together(make_results(parts.call, parts.state.plain), parts.state.values);
    loop.state.leaves.assign(made.begin(), made.end());
    add_call(std::move(parts.call));
  });
}

void Recorder::begin_loop(LoopParts& parts, Loop& loop) {
  refuse_parts("while_loop");
  refuse_gradients_through("state ? of while_loop", loop.state.leaves);
  settle_fresh_memory();
  parts.call.one_thread = num_threads_ > 1 && at::get_num_threads() == 1;
  parts.state = take_apart(loop.state.leaves);
  parts.call.arguments.push_back(operand_of(at::IValue(at::ArrayRef<Tensor>(parts.state.plain))));
  for (const Tensor& tensor : parts.state.plain) parts.call.reads.push_back(buffer_of(tensor));
  take_next_state(parts, loop, parts.state.plain);
}

// Memory of the iteration that begins.
std::vector<int> Recorder::take_state(at::ArrayRef<Tensor> state) {
  std::vector<int> numbers;
  for (const Tensor& tensor : state) {
    numbers.push_back(
        add_buffer({.kind = Program::Buffer::Kind::temporary, .bytes = static_cast<int64_t>(tensor.storage().nbytes())},
                   tensor.storage()));
    this->state(numbers.back()).made_by = "while_loop";
    value_of(tensor);
    close(numbers.back());
  }
  return numbers;
}

// Where the loop itself is undone, one iteration tells all.
void Recorder::record_condition(Part& condition, Loop& loop) {
  const auto ask = [&] {
    FlatTensors flag;
    flag.leaves.push_back(loop.condition(loop.state.leaves));
    return flag;
  };
  loop.goes_on = false;
  if (loop.has_had_all()) {
    attempt([&] { record_undone(condition, ask); });
    return;
  }
  record_part(condition, ask);
  if (is_over())
    loop.goes_on = condition.returned.leaves[0].item<bool>();
  else
    loop.goes_on = !is_undone() && read_flag(condition.results.plain[0]);
}

// Returns whether there is another one.
bool Recorder::record_iteration(LoopParts& parts, Loop& loop) {
  const bool is_first = parts.inputs.empty();
  if (loop.has_had_all() && !is_first) return false;
  Part iteration{"an iteration of while_loop"}, condition{"the condition of while_loop"},
      body{"the body of while_loop"};
  PartScope scope(*this, iteration);
  const std::vector<int> state = take_state(parts.state.plain);
  record_condition(condition, loop);
  const bool taken = *loop.goes_on;
  const auto step = [&] {
    FlatTensors next = loop.body(loop.state.leaves);
    loop.refuse_other(next);
    return next;
  };
  if (taken && !is_over()) {
    record_part(body, step);
    loop.state.leaves = body.returned.leaves;
    ++loop.num_iterations;
    loop.goes_on.reset();
  }
  if (!is_over())
    attempt([&] {
      if (!taken && is_first) record_undone(body, step);
      take_part(parts, 0, state, condition);
      if (taken || is_first) take_part(parts, 1, state, body);
      if (taken) take_next_state(parts, loop, body.results.plain);
    });
  scope.finish();
  return taken && !is_over();
}

void Recorder::take_next_state(LoopParts& parts, Loop& loop, at::ArrayRef<Tensor> next) {
  parts.state.plain = own_values(next);
  const Tensors own = put_together(parts.state.plain, parts.state.values);
  loop.state.leaves.assign(own.begin(), own.end());
}

void Recorder::take_part(LoopParts& parts, size_t index, const std::vector<int>& state, Part& part) {
  if (index == 1)
    for (size_t i = 0; i < parts.state.values.size(); ++i)
      if (part.results.values[i].spec != parts.state.values[i].spec)
        throw Error(ErrorCode::unimplemented,
                    str(name_, ": ", part.what, " returns state ", i, " in another layout; relayout it"));
  SubProgram program = program_of(part, state);
  std::vector<int> inputs(program.inputs.begin() + std::ssize(state), program.inputs.end());
  if (parts.inputs.size() == index) {
    add_part(parts.call, index == 0 ? "condition" : "body", std::move(program), state.size());
    parts.inputs.push_back(std::move(inputs));
    return;
  }
  auto differs = difference(*parts.call.parts[index].program, program.program);
  if (!differs && inputs != parts.inputs[index]) differs = "another tensor from outside";
  if (differs)
    throw Error(ErrorCode::failed_precondition,
                str(name_, ": ", part.what, " does other things in another iteration: ", *differs,
                    ". A replay would do the same in each; what changes must be in the state, or be computed by tensor "
                    "operations"));
}

}  // namespace tutti
