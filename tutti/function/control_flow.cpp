#include "tutti/function/control_flow.h"

#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/loop.h"
#include "tutti/function/recorder.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/outer_recorder.h"

namespace tutti::function_internal {
namespace {

void refuse_saving(const char* what) {
  if (!OuterRecorder::current()) return;
  throw Error(ErrorCode::unimplemented, str("saved_model: ", what,
                                            " depends on values, and cannot be saved yet; compute both and choose by "
                                            "torch::where"));
}

void check_predicate(const char* what, const Tensor& predicate) {
  const bool is_flag = predicate.defined() && predicate.scalar_type() == at::kBool && predicate.numel() == 1;
  if (is_flag) return;
  throw Error(ErrorCode::invalid_argument,
              str(what, ": the predicate is ", text_of_kind(predicate),
                  "; it must be a bool tensor of one element, as x > 0 and x.isfinite() give"));
}

// Tensors of their own, wherever the values came from.
FlatTensors own_values(FlatTensors values) {
  for (Tensor& value : values.leaves)
    if (value.defined()) value = value.clone(at::MemoryFormat::Contiguous);
  return values;
}

// From where it stands to its end.
void go_on(Loop& loop) {
  loop.state = own_values(std::move(loop.state));
  for (; !loop.has_had_all(); ++loop.num_iterations) {
    const bool goes_on = loop.goes_on ? *loop.goes_on : loop.condition(loop.state.leaves).item<bool>();
    loop.goes_on.reset();
    if (!goes_on) return;
    FlatTensors next = loop.body(loop.state.leaves);
    loop.refuse_other(next);
    loop.state = own_values(std::move(next));
  }
}

}  // namespace

FlatTensors cond(const Tensor& predicate, Part if_true, Part if_false) {
  refuse_saving("cond");
  check_predicate("cond", predicate);
  if (auto* const recorder = dynamic_cast<Recorder*>(CallRecorder::current())) {
    const Tensor flag = is_mesh_tensor(predicate) ? gather(predicate) : predicate;
    if (auto results = recorder->cond(flag, if_true, if_false))
      return recorder->is_over() ? own_values(std::move(*results)) : std::move(*results);
  }
  return own_values(predicate.item<bool>() ? if_true() : if_false());
}

std::vector<Tensor> while_loop(LoopCondition condition, LoopBody body, FlatTensors state,
                               const WhileLoopOptions& options) {
  refuse_saving("while_loop");
  if (options.maximum_iterations && *options.maximum_iterations < 0)
    throw Error(ErrorCode::invalid_argument,
                str("while_loop: maximum_iterations is ", *options.maximum_iterations, "; it must be at least 0"));
  for (size_t i = 0; i < state.leaves.size(); ++i)
    if (!state.leaves[i].defined())
      throw Error(ErrorCode::invalid_argument, str("while_loop: state ", i, " is an undefined tensor"));
  const auto checked = [&](const std::vector<Tensor>& now) {
    const Tensor predicate = condition(now);
    check_predicate("while_loop", predicate);
    return is_mesh_tensor(predicate) ? gather(predicate) : predicate;
  };
  Loop loop{checked, body, options.maximum_iterations, std::move(state)};
  if (auto* const recorder = dynamic_cast<Recorder*>(CallRecorder::current())) {
    recorder->while_loop(loop);
    if (!recorder->is_over()) return std::move(loop.state.leaves);
  }
  go_on(loop);
  return std::move(loop.state.leaves);
}

}  // namespace tutti::function_internal
