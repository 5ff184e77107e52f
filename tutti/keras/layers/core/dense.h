#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct DenseOptions {
  int64_t units = 0;  // required
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::optional<constraints::Constraint> kernel_constraint = {};
  std::optional<constraints::Constraint> bias_constraint = {};
  std::string name = {};
};

// activation(x @ kernel + bias). Shapes: x [..., in], result [..., units]; kernel [in, units], bias [units].
// TF: tf.keras.layers.Dense
class Dense : public Layer {
 public:
  explicit Dense(const DenseOptions& options);
};

}  // namespace tutti::keras::layers
