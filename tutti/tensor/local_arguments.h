#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "tutti/tensor/components.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/plan.h"

namespace tutti {

class MeshTensorImpl;

// The arguments of the calls of a plan: the pieces that each works on, and what all calls share.
class LocalArguments {
 public:
  LocalArguments(const OperatorInfo& info, const Plan& plan, at::ArrayRef<at::IValue> arguments);

  void of_call(size_t call, torch::jit::Stack& stack) const;

 private:
  const Components* moved(const OperatorInfo& info, const Plan::Operand& operand, const MeshTensorImpl& impl,
                          const Components& pieces);
  void make_contiguous(at::IValue& operand) const;
  void lie_as(const at::IValue& whole, at::IValue& piece) const;
  const Tensor& item_of_list(int argument, int item, size_t call) const;

  const Plan& plan_;
  c10::SmallVector<at::IValue, 8> shared_;
  c10::SmallVector<Components, 2> moved_;  // what is there for these calls only
  c10::SmallVector<std::pair<const MeshTensorImpl*, const Components*>, 2> gathered_;
  c10::SmallVector<const Components*, 4> pieces_;  // of each operand
  const at::IValue* whole_ = nullptr;              // of a first argument that must be contiguous where the whole is
  uint64_t lists_ = 0;                             // the arguments, one bit each, that are lists of pieces
};

// Whether each component of a view lies in the memory of its tensor's: a layout of another name alone moves nothing.
bool lies_in(const Components& tensor, const Components& view);

}  // namespace tutti
