#include "tutti/function/control_flow.h"

#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
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
  throw Error(
      ErrorCode::invalid_argument,
      str(what, ": the predicate is ",
          predicate.defined() ? str(c10::getDtypeNames(predicate.scalar_type()).first, ' ', str_list(predicate.sizes()))
                              : "no tensor",
          "; it must be a bool tensor of one element, as x > 0 and x.isfinite() give"));
}

// Tensors of their own, wherever the values came from.
FlatTensors own_values(FlatTensors values) {
  for (Tensor& value : values.leaves)
    if (value.defined()) value = value.clone(at::MemoryFormat::Contiguous);
  return values;
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

}  // namespace tutti::function_internal
