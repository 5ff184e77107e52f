#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct EinsumDenseOptions {
  std::string equation = {};  // required: "abc,cde->abde" of the input and the kernel; "...x,xy->...y"
  Shape output_shape = {};    // required, of a sample; kUnknown where the input says. With an ellipsis: of the letters
  activations::Activation activation = activations::linear;
  std::string bias_axes = {};  // letters of the output that the bias has; empty: no bias
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<constraints::Constraint> kernel_constraint = {};
  std::optional<constraints::Constraint> bias_constraint = {};
  std::string name = {};
};

// activation(einsum(equation, x, kernel) + bias). The kernel's extents are those that the input and the output have for
// its letters; an ellipsis, first in input and output, stands for any axes.
// Throws: invalid_argument for an equation of another form, and for letters whose extents are not known.
// TF: tf.keras.layers.EinsumDense
class EinsumDense : public Layer {
 public:
  explicit EinsumDense(const EinsumDenseOptions& options);
};

}  // namespace tutti::keras::layers
