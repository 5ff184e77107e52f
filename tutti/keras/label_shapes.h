#pragma once

#include <string>
#include <utility>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// Labels [N] and predictions [N, 1], or the reverse, brought to one rank as Keras does: the last extent of one is
// dropped, or added to a vector; anything else stays.
std::pair<Tensor, Tensor> same_rank(const Tensor& a, const Tensor& b);

enum class LabelKind { binary, sparse, categorical };
// What labels are by Keras's rule: binary where the predictions' last extent is 1 or they have one axis; class numbers
// (sparse) where the labels have fewer axes, or a last extent of 1; else categorical.
LabelKind label_kind(const Tensor& y_true, const Tensor& y_pred);

// Labels and predictions of equal shape, the labels in the predictions' dtype. `name` is the loss or metric of the
// error: invalid_argument if they cannot be brought to one shape.
std::pair<Tensor, Tensor> elementwise_pair(const std::string& name, const Tensor& y_true, const Tensor& y_pred);

// Predictions to compute with: float32 unless they are wider, as half precision has too few digits for sums, and whole
// numbers none for quotients.
Tensor at_least_float(const Tensor& y_pred);

// Class numbers as int64 [...] for predictions [..., classes]; labels may also be [..., 1].
Tensor class_indices(const std::string& name, const Tensor& y_true, const Tensor& y_pred);

// Throws invalid_argument if a class number lies outside of [0, classes). Labels on other devices than the CPU are not
// looked at, so that nothing waits for them: what indexes with them fails there.
void check_class_indices(const std::string& name, const Tensor& indices, int64_t classes);

// The weight, or what `what` says it is, with extents of one behind it, so that it multiplies `values` sample by
// sample.
Tensor broadcastable_weight(const std::string& name, const Tensor& weight, const Tensor& values,
                            const char* what = "weights");

// The sample weights, zero where the mask, [N] or [N, steps], is false. Either may be undefined.
Tensor masked_weight(const std::string& name, const Tensor& sample_weight, const Tensor& mask);

// The axis counted from the front. Throws invalid_argument if a tensor of `dim` axes has no such axis.
int64_t checked_axis(const std::string& name, int64_t axis, int64_t dim);
// The same, for what is computed within each sample: axis 0 is the batch, and refused.
int64_t checked_axis_of_sample(const std::string& name, int64_t axis, int64_t dim);

}  // namespace tutti::keras
