#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

// How the outputs of both directions become one; none: they stay two.
enum class MergeMode { concat, sum, mul, ave, none };

struct BidirectionalOptions {
  MergeMode merge_mode = MergeMode::concat;  // concat: along the features
  std::string name = {};
};

// A sequence taken in both directions, by two layers that are made as `layer` is (its weights are not used): SimpleRNN,
// LSTM or GRU. With return_sequences, both outputs are in the order of the input.
// Inputs: x [batch, steps, features], or it and the first states, forward's before backward's. Outputs: that of
// MergeMode, or two of them for none; then the states, if the layer has return_state. Weights: forward's, then
// backward's.
// Throws: invalid_argument for another layer.
// TF: tf.keras.layers.Bidirectional
class Bidirectional : public Layer {
 public:
  explicit Bidirectional(const Layer& layer, const BidirectionalOptions& options = {});
};

}  // namespace tutti::keras::layers
