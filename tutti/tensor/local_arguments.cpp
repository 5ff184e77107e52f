#include "tutti/tensor/local_arguments.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

using at::IValue;

namespace {

// What a view shows is all memory of the tensor, or all a copy, which is written back: the tensor's pieces are read
// for that, and may have changed.
void leave_memory_of(const Components& tensor, Components& shown) {
  for (Tensor& piece : shown)
    if (std::any_of(tensor.begin(), tensor.end(), [&](const Tensor& own) { return are_aliases(piece, own); }))
      piece = piece.clone();
}

}  // namespace

bool lies_in(const Components& tensor, const Components& view) {
  return std::equal(
      tensor.begin(), tensor.end(), view.begin(), view.end(),
      [](const Tensor& whole, const Tensor& shown) { return !shown.defined() || are_aliases(whole, shown); });
}

LocalArguments::LocalArguments(const OperatorInfo& info, const Plan& plan, at::ArrayRef<IValue> arguments)
    : plan_(plan), shared_(arguments.begin(), arguments.end()) {
  moved_.reserve(2 * plan.operands.size());  // pointers into it must stay valid
  for (const auto& operand : plan.operands) {
    const auto position = static_cast<size_t>(operand.argument);
    const IValue& value = arguments[position];
    auto& impl = mesh_impl(operand.item < 0 ? value.toTensor()
                                            : value.toListRef()[static_cast<size_t>(operand.item)].toTensor());
    const Components* pieces = &(info.writes[position] ? impl.write_here() : impl.read_here());
    if (operand.relayout) pieces = moved(info, operand, impl, *pieces);
    if (operand.join)
      pieces = &moved_.emplace_back(operand.join->run(impl.meta(), *pieces, Sharing::allowed, info.name));
    pieces_.push_back(pieces);
    if (operand.item < 0)
      shared_[position] = IValue();
    else
      lists_ |= uint64_t{1} << position;
  }
  if (info.asks_if_contiguous) whole_ = arguments.data();
}

// A tensor that a gathered op takes twice is one tensor for it too: it may refuse to write to what it reads.
const Components* LocalArguments::moved(const OperatorInfo& info, const Plan::Operand& operand,
                                        const MeshTensorImpl& impl, const Components& pieces) {
  const bool may_share = info.writes_any && plan_.gathers;
  if (may_share)
    for (const auto& [tensor, whole] : gathered_)
      if (tensor == &impl) {
        operand.relayout->record(impl.meta().dtype.itemsize());
        return whole;
      }
  Components& result = moved_.emplace_back(operand.relayout->run(impl.meta(), pieces));
  if (info.is_view && !lies_in(pieces, result)) leave_memory_of(pieces, result);
  if (may_share) gathered_.emplace_back(&impl, &result);
  return &result;
}

void LocalArguments::of_call(size_t call, torch::jit::Stack& stack) const {
  stack.assign(shared_.begin(), shared_.end());
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (const auto& operand = plan_.operands[i]; operand.item < 0)
      stack[static_cast<size_t>(operand.argument)] = (*pieces_[i])[operand.component_of_call[call]];
  for (size_t argument = 0; lists_ >> argument; ++argument)
    if (lists_ >> argument & 1)
      replace_mesh_tensors(stack[argument], [&](const Tensor&, int item) -> const Tensor& {
        return item_of_list(static_cast<int>(argument), item, call);
      });
  for (const int argument : plan_.contiguous) make_contiguous(stack[static_cast<size_t>(argument)]);
  if (whole_) lie_as(*whole_, stack[0]);
  for (const auto& patch : plan_.patches) stack[static_cast<size_t>(patch.argument)] = patch.value_of_call[call];
}

void LocalArguments::make_contiguous(IValue& operand) const {
  const Tensor& piece = operand.toTensor();
  if (!piece.is_contiguous(plan_.channels_last ? piece.suggest_memory_format() : at::MemoryFormat::Contiguous))
    operand = piece.contiguous();
}

void LocalArguments::lie_as(const IValue& whole, IValue& piece) const {
  const Tensor& tensor = piece.toTensor();
  if (tensor.dim() < 2 || tensor.is_contiguous() == whole.toTensor().is_contiguous()) return;
  piece = tensor.is_contiguous() ? tensor.mT().contiguous().mT() : tensor.contiguous();
}

const Tensor& LocalArguments::item_of_list(int argument, int item, size_t call) const {
  for (size_t i = 0; i < pieces_.size(); ++i)
    if (plan_.operands[i].argument == argument && plan_.operands[i].item == item)
      return (*pieces_[i])[plan_.operands[i].component_of_call[call]];
  throw Error(ErrorCode::internal, str("a rule left out tensor ", item, " of argument ", argument));
}

}  // namespace tutti
