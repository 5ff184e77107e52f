#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/core/function_ref.h"

namespace tutti::keras::optimizers {

inline constexpr size_t kMaxSlots = 3;

// A dense buffer of a variable in host memory and what its update reads and writes. Element i of each belongs to
// element i of the others.
struct Piece {
  at::ScalarType dtype;  // float, double, half or bfloat16, of all
  int64_t count;         // elements
  void* variable;
  const void* gradient;
  std::array<void*, kMaxSlots> slots;  // those that the rule has
  double gradient_scale;               // the rule sees the gradient times this,
  double gradient_limit;               // kept in [-limit, limit],
  double variable_scale;               // and the variable times this
};

// The same in the type in which it is computed.
template <class T>
struct Elements {
  T* variable;
  const T* gradient;
  std::array<T*, kMaxSlots> slots;
  int64_t count;
  T gradient_scale;
  T gradient_limit;
  T variable_scale;
};

// An optimizer's rule for elements in a row.
struct ElementRule {
  size_t num_slots;
  FunctionRef<void(const Elements<float>&)> in_float;  // of half and bfloat16 too, which are rounded once
  FunctionRef<void(const Elements<double>&)> in_double;
};

// Applies the rule to all pieces in one pass over memory, on LibTorch's threads where there is much to do. No element
// depends on another one: the results do not depend on the threads. Allocates nothing but a tensor for the threads.
void fused_update(std::span<const Piece> pieces, const ElementRule& rule);

}  // namespace tutti::keras::optimizers
