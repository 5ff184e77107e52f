#include "tutti/tensor/strict_mode.h"

#include <torch/csrc/autograd/graph_task.h>

#include <mutex>
#include <set>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

thread_local int t_strict = 0;

std::string layouts(at::ArrayRef<at::IValue> arguments) {
  std::string text;
  const auto add = [&](const at::IValue& value) {
    if (value.isTensor() && is_mesh_tensor(value.toTensor()))
      text += (text.empty() ? "" : ", ") + layout_of(value.toTensor()).to_string();
  };
  for (const at::IValue& argument : arguments) {
    add(argument);
    if (argument.isTensorList())
      for (const at::IValue& item : argument.toListRef()) add(item);
  }
  return text;
}

}  // namespace

StrictMode::StrictMode() { ++t_strict; }
StrictMode::~StrictMode() { --t_strict; }

void note_gather(const std::string& op, at::ArrayRef<at::IValue> arguments) {
  if (t_strict)
    throw Error(ErrorCode::failed_precondition,
                str(op, ": no rule for layouts ", layouts(arguments),
                    "; strict mode refuses to gather. relayout() the operands to replicated first"));
  static std::mutex mutex;
  static auto& seen = *new std::set<std::string>;
  {
    const std::lock_guard lock(mutex);
    if (!seen.insert(op).second) return;
  }
  warn(str(op, ": no rule for layouts ", layouts(arguments), "; the operands are gathered (said once per op)"));
}

void check_implied_relayout(const std::string& op, const Spec& from, const Spec& to) {
  if (t_strict)
    throw Error(ErrorCode::failed_precondition,
                str(op, ": needs an operand of shape ", str_list(from.sizes), " in layout ", to.layout().to_string(),
                    ", which lies as ", from.layout().to_string(),
                    "; strict mode refuses to move its pieces. relayout() it first"));
}

void check_plain_operand(const std::string& op) {
  if (t_strict && torch::autograd::get_current_graph_task_id() < 0)
    throw Error(ErrorCode::failed_precondition,
                str(op,
                    ": a plain tensor among mesh tensors counts as replicated; strict mode refuses it. "
                    "distribute_tensor() it first"));
}

}  // namespace tutti
