#pragma once

#include <string>

#include "tutti/keras/layers/recurrent/rnn_cell.h"

namespace tutti::keras::layers {

struct RNNOptions {
  bool return_sequences = false;      // the outputs of all steps, not the last one alone
  bool return_state = false;          // the last states beside: outputs() gives them
  bool go_backwards = false;          // from the last step to the first; the outputs come in that order
  bool zero_output_for_mask = false;  // a step that the mask hides gives 0, not the output before it
  bool stateful = false;              // a batch begins with the last states of the one before, until reset_state()
  std::string name = {};
};

// Any cell, taken from step to step. A step that the mask hides changes no state.
// Shapes: x [batch, steps, ...], or {x, states...} with the first states, which are 0 else; result [batch, size] or
//   [batch, steps, size] of what the cell gives; the states as the cell says. Weights: the cell's.
// TF: tf.keras.layers.RNN
class RNN : public Layer {
 public:
  explicit RNN(const RNNCell& cell, const RNNOptions& options = {});

  // With stateful: the next batch begins with 0. Each replica has states of its own, of its shard.
  void reset_state() const;
};

}  // namespace tutti::keras::layers
