#pragma once

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::layers {

// What to add to scores [..., T, S] so that softmax leaves out what is masked: 0, or a large negative number of the
// scores' dtype; a row in which nothing counts becomes uniform, not NaN. Undefined if nothing is masked. Masks are
// bool: query_mask [N, T] (undefined where queries are not masked here), value_mask and key_mask [N, S], any of them
// undefined. `causal`: no step looks at later ones.
Tensor attention_bias(const Tensor& query, const Tensor& value, const Tensor& query_mask, const Tensor& value_mask,
                      const Tensor& key_mask, bool causal);

}  // namespace tutti::keras::layers
