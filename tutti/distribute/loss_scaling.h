#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace tutti {

using Tensor = at::Tensor;

struct AverageLossOptions {
  Tensor sample_weight = {};                      // a scalar, one for each example ([b] or [b, 1]), or for each loss
  std::optional<int64_t> global_batch_size = {};  // default: the local number of losses times the number of replicas
};

// The sum of a replica's losses over the global batch size: summed over the replicas, the mean over the batch.
// Shapes: per_example_loss [b, …], result []. Dtype: of the losses; float64 for integers. A global batch of 0 gives 0.
// Throws: invalid_argument for a scalar loss, weights that do not fit, or a negative batch size; failed_precondition in
// cross-replica context. TF: tf.nn.compute_average_loss.
Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options = {});

// The sum of regularization losses over the number of replicas. TF: tf.nn.scale_regularization_loss.
// Throws: failed_precondition in cross-replica context.
Tensor scale_regularization_loss(const Tensor& loss);
Tensor scale_regularization_loss(const std::vector<Tensor>& losses);

}  // namespace tutti
