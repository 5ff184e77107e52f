#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/core/function_ref.h"

namespace tutti {

inline constexpr size_t kMaxUpdateSlots = 3;

// The update of a dense buffer in host memory: what it reads and writes. Element i of each belongs to
// element i of the others.
struct BufferUpdate {
  at::ScalarType dtype;  // float, double, half or bfloat16, of all
  int64_t count;         // elements
  void* variable;
  const void* gradient;
  std::array<void*, kMaxUpdateSlots> slots;  // those that the rule has
  double gradient_scale;                     // the rule sees the gradient times this,
  double gradient_limit;                     // kept in [-limit, limit],
  double variable_scale;                     // and the variable times this
};

// The same in the type in which it is computed.
template <class T>
struct TypedUpdate {
  T* variable;
  const T* gradient;
  std::array<T*, kMaxUpdateSlots> slots;
  int64_t count;
  T gradient_scale;
  T gradient_limit;
  T variable_scale;
};

// An optimizer's rule for elements in a row.
struct ElementRule {
  size_t num_slots;
  FunctionRef<void(const TypedUpdate<float>&)> in_float;  // of half and bfloat16 too, which are rounded once
  FunctionRef<void(const TypedUpdate<double>&)> in_double;
};

// Applies the rule to all buffers in one pass over memory, on LibTorch's threads where there is much to do. No element
// depends on another one: the results do not depend on the threads. Allocates nothing but a tensor for the threads.
void fused_update(std::span<const BufferUpdate> updates, const ElementRule& rule);

}  // namespace tutti
