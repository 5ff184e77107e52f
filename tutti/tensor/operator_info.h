#pragma once

#include <ATen/core/function_schema.h>
#include <c10/util/SmallVector.h>

#include <string>

#include "tutti/tensor/planner.h"
#include "tutti/tensor/rules/sparse_products.h"

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// What the kernel knows of an op before it is called, read from its schema once.
struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& op);

  std::string name;  // "aten::add"
  size_t num_arguments;
  size_t num_returns;
  c10::SmallVector<int8_t, 4>
      written_return;                    // for each return the argument that it is, after writing; -1: a new tensor
  c10::SmallVector<bool, 12> writes;     // for each argument
  c10::SmallVector<bool, 12> is_number;  // for each argument: a Scalar, with which the op computes
  bool is_view = false;                  // the first return aliases the first argument
  bool is_reshape = false;               // to sizes whose elements are in the same row-major order
  bool asks_if_contiguous = false;       // its kernel and its gradient's formula ask so of the first argument
  bool changes_geometry = false;         // of its first argument, in place: t_, resize_, …
  bool writes_any = false;
  bool writes_out = false;      // its results are written into arguments, whose sizes may change
  bool draws = false;           // random numbers
  bool may_fill_plain = false;  // a plain tensor with the values of sharded ones
  int output_mask = -1;         // the argument that says which results are asked for; -1: all
  bool is_composite = false;    // decomposed by LibTorch itself
  Rule rule = nullptr;
  Decomposition decomposition = nullptr;
  SparseForm sparse_form = nullptr;
};

}  // namespace tutti
