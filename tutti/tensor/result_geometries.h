#pragma once

#include <ATen/core/DimVector.h>
#include <ATen/core/ivalue.h>
#include <c10/util/OptionalArrayRef.h>

#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace tutti {

struct OperatorInfo;

// The strides that LibTorch gives the results of a call, of operands with these sizes and strides. Pieces cannot tell
// them: a view of pieces may be a copy, and a piece with an axis of one element does not show where that axis lies.
class ResultGeometries {
 public:
  ResultGeometries() = default;
  // Throws: what LibTorch throws of operands that it does not take, for views and for ops that are rewritten as others
  // alone. Any other op throws that when it is called.
  ResultGeometries(const c10::OperatorHandle& op, const OperatorInfo& info, at::ArrayRef<at::IValue> arguments);

  // The strides of a result that turned out to have these sizes. `item`: its place in a list, or -1 where it is no
  // list. Nothing where LibTorch needs memory to tell.
  at::OptionalIntArrayRef strides(size_t result, int item, at::IntArrayRef sizes) const;

 private:
  struct Geometry {
    at::DimVector sizes, strides;
  };
  std::vector<std::vector<Geometry>> results_;
};

}  // namespace tutti
