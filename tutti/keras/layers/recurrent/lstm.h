#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct LSTMOptions {
  int64_t units = 0;  // required
  activations::Activation activation = activations::tanh;
  activations::Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
  bool unit_forget_bias = true;  // the bias of the forget gate starts at 1
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

// Long short-term memory: with the gates i, f, c, o of x @ kernel + h @ recurrent_kernel + bias, in this order,
//   c' = recurrent_activation(f) * c + recurrent_activation(i) * activation(c gate)
//   h' = recurrent_activation(o) * activation(c')
// A step that the mask hides changes nothing, and repeats the output before it.
// Shapes: x [batch, steps, features], or {x, h, c} with the first state, [batch, units] each, which is 0 else; result
//   [batch, units] or [batch, steps, units]; state h, c. kernel [features, 4 units], recurrent_kernel [units, 4 units],
//   bias [4 units].
// TF: tf.keras.layers.LSTM. Source: Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735.
class LSTM : public Layer {
 public:
  explicit LSTM(const LSTMOptions& options);

  // With stateful: the next batch begins with 0. Each replica has states of its own, of its shard.
  void reset_state() const;
};

}  // namespace tutti::keras::layers
