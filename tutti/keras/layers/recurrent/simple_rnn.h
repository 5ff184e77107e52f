#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct SimpleRNNOptions {
  int64_t units = 0;  // required
  activations::Activation activation = activations::tanh;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
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

// h' = activation(x @ kernel + h @ recurrent_kernel + bias), step by step. A step that the mask hides changes nothing,
// and repeats the output before it.
// Shapes: x [batch, steps, features], or {x, h [batch, units]} with the first state, which is 0 else; result
//   [batch, units] or [batch, steps, units]; state h. kernel [features, units], recurrent_kernel [units, units], bias
//   [units].
// TF: tf.keras.layers.SimpleRNN
class SimpleRNN : public Layer {
 public:
  explicit SimpleRNN(const SimpleRNNOptions& options);

  // With stateful: the next batch begins with 0. Each replica has states of its own, of its shard.
  void reset_state() const;
};

}  // namespace tutti::keras::layers
