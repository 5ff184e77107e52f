#pragma once

#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct GroupNormalizationOptions {
  int64_t groups = 32;  // -1: each channel is a group
  int64_t axis = -1;    // of the channels
  double epsilon = 1e-3;
  bool center = true;  // add beta
  bool scale = true;   // multiply by gamma
  initializers::Initializer beta_initializer = initializers::Zeros();
  initializers::Initializer gamma_initializer = initializers::Ones();
  std::optional<regularizers::Regularizer> beta_regularizer = {};
  std::optional<regularizers::Regularizer> gamma_regularizer = {};
  std::optional<constraints::Constraint> beta_constraint = {};
  std::optional<constraints::Constraint> gamma_constraint = {};
  std::string name = {};
};

// gamma * (x - mean) / sqrt(variance + epsilon) + beta, with statistics over a sample's elements in a group of
// neighbouring channels. Shapes: any of at least two axes, kept; gamma and beta [channels].
// TF: tf.keras.layers.GroupNormalization
class GroupNormalization : public Layer {
 public:
  explicit GroupNormalization(const GroupNormalizationOptions& options = {});
};

}  // namespace tutti::keras::layers
