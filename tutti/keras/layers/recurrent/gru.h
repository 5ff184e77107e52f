#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct GRUOptions {
  int64_t units = 0;  // required
  activations::Activation activation = activations::tanh;
  activations::Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
  bool reset_after = true;  // r scales h @ recurrent_kernel, else h
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> recurrent_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  double dropout = 0;                 // of the input, in training: the same features in all steps of a sequence
  double recurrent_dropout = 0;       // of what a step sees of the one before
  bool return_sequences = false;      // the outputs of all steps, not the last one alone
  bool return_state = false;          // the last state beside: outputs() gives it
  bool go_backwards = false;          // from the last step to the first; the outputs come in that order
  bool zero_output_for_mask = false;  // a step that the mask hides gives 0, not the output before it
  bool stateful = false;              // a batch begins with the last states of the one before, until reset_state()
  std::string name = {};
};

// Gated recurrent units: with the gates z, r, h of x and of h, in this order,
//   z, r = recurrent_activation(x @ kernel + h @ recurrent_kernel + bias)
//   h' = z * h + (1 - z) * activation(x @ kernel + r * (h @ recurrent_kernel) + bias)
// A step that the mask hides changes nothing, and repeats the output before it.
// Shapes: x [batch, steps, features], or {x, h [batch, units]} with the first state, which is 0 else; result
//   [batch, units] or [batch, steps, units]; state h. kernel [features, 3 units], recurrent_kernel [units, 3 units],
//   bias [2, 3 units], of x and of h, or without reset_after [3 units].
// TF: tf.keras.layers.GRU. Source: Cho et al. 2014, arXiv:1406.1078; with reset_after, as cuDNN has it.
class GRU : public Layer {
 public:
  explicit GRU(const GRUOptions& options);

  // With stateful: the next batch begins with 0. Each replica has states of its own, of its shard.
  void reset_state() const;
};

}  // namespace tutti::keras::layers
