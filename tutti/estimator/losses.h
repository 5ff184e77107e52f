#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"

// Losses with weights, as model functions for tf.compat.v1 use them: each gives one number, and notes for the run
// whether replicas add or average theirs. Grad: to the predictions. Throws: invalid_argument for shapes that do not
// fit. TF: tf.compat.v1.losses.
namespace tutti::estimator::losses {

enum class Reduction { sum, mean, sum_over_batch_size, sum_by_nonzero_weights };

// `weights`: undefined for 1, or of a shape that is broadcast to the losses' one.
struct LossOptions {
  Tensor weights = {};
  Reduction reduction = Reduction::sum_by_nonzero_weights;
};

// The weighted sum of losses, divided by nothing, by the sum of the weights, by the number of losses, or by the number
// of those whose weight is not 0; a division by 0 gives 0.
Tensor compute_weighted_loss(const Tensor& losses, const LossOptions& options = {});

Tensor absolute_difference(const Tensor& labels, const Tensor& predictions, const LossOptions& options = {});
Tensor mean_squared_error(const Tensor& labels, const Tensor& predictions, const LossOptions& options = {});
// Half the square up to 1, then linear.
Tensor huber_loss(const Tensor& labels, const Tensor& predictions, const LossOptions& options = {});
// Labels 0 or 1.
Tensor hinge_loss(const Tensor& labels, const Tensor& logits, const LossOptions& options = {});
Tensor sigmoid_cross_entropy(const Tensor& labels, const Tensor& logits, const LossOptions& options = {});
// Labels [batch, classes], one-hot; and [batch] or [batch, 1], the class.
Tensor softmax_cross_entropy(const Tensor& labels, const Tensor& logits, const LossOptions& options = {});
Tensor sparse_softmax_cross_entropy(const Tensor& labels, const Tensor& logits, const LossOptions& options = {});

}  // namespace tutti::estimator::losses
