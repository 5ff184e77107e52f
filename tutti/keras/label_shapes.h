#pragma once

#include <string>
#include <utility>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// Labels [N] and predictions [N, 1], or the reverse, brought to one rank as Keras does: the last extent of one is
// dropped, or added to a vector; anything else stays.
std::pair<Tensor, Tensor> same_rank(const Tensor& a, const Tensor& b);

// Labels and predictions of equal shape, the labels in the predictions' dtype. `name` is the loss or metric of the
// error: invalid_argument if they cannot be brought to one shape.
std::pair<Tensor, Tensor> elementwise_pair(const std::string& name, const Tensor& y_true, const Tensor& y_pred);

// Class numbers as int64 [...] for predictions [..., classes]; labels may also be [..., 1].
Tensor class_indices(const std::string& name, const Tensor& y_true, const Tensor& y_pred);

// The weight with extents of one behind it, so that it multiplies `values` sample by sample.
Tensor broadcastable_weight(const std::string& name, const Tensor& weight, const Tensor& values);

}  // namespace tutti::keras
