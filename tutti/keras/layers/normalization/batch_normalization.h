#pragma once

#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct BatchNormalizationOptions {
  int64_t axis = -1;  // of the channels; the statistics go over all others
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;  // add beta
  bool scale = true;   // multiply by gamma
  initializers::Initializer beta_initializer = initializers::Zeros();
  initializers::Initializer gamma_initializer = initializers::Ones();
  initializers::Initializer moving_mean_initializer = initializers::Zeros();
  initializers::Initializer moving_variance_initializer = initializers::Ones();
  std::optional<regularizers::Regularizer> beta_regularizer = {};
  std::optional<regularizers::Regularizer> gamma_regularizer = {};
  std::optional<constraints::Constraint> beta_constraint = {};
  std::optional<constraints::Constraint> gamma_constraint = {};
  bool synchronized = false;  // the statistics go over the shards of all replicas
  std::string name = {};
};

// gamma * (x - mean) / sqrt(variance + epsilon) + beta, with the statistics of each channel: in training those of the
// batch, with which moving = momentum * moving + (1 - momentum) * statistic follows, the variance without Bessel's
// correction; else the moving ones.
// Shapes: any of at least two axes, kept; weights gamma, beta, moving_mean, moving_variance [channels].
// Replicas: in a replica's function the batch is the replica's shard, or with `synchronized` all shards, whatever their
// sizes; then all replicas must call, and gradients flow between them. An empty batch changes nothing, and what a mask
// hides is normalized but does not count. A frozen layer (set_trainable) uses its moving statistics. The moving
// statistics are each replica's own; outside, and in get_weights, they are the first replica's. In global view the
// batch is the global one. TF: tf.keras.layers.BatchNormalization; Keras yields NaN for an empty shard.
class BatchNormalization : public Layer {
 public:
  explicit BatchNormalization(const BatchNormalizationOptions& options = {});
};

}  // namespace tutti::keras::layers
