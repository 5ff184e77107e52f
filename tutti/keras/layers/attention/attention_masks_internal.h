#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::layers {

// bool, true where a step counts; any of them may be undefined.
struct AttentionMasks {
  Tensor query = {};      // [N, T]
  Tensor value = {};      // [N, S]
  Tensor key = {};        // [N, S]
  Tensor attention = {};  // [N, T, S]: which steps each step looks at
  bool causal = false;    // no step looks at later ones
};

// What to add to scores [..., T, S] so that softmax leaves out what is masked: 0, or a large negative number of the
// scores' dtype; a row in which nothing counts becomes uniform, not NaN. Undefined if nothing is masked.
Tensor attention_bias(const Tensor& query, const Tensor& value, const AttentionMasks& masks);

}  // namespace tutti::keras::layers
