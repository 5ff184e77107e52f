#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct TimeDistributedOptions {
  std::string name = {};
};

// A layer of one input and one output, applied to each step of a sequence: all steps of a batch are one large batch for
// it. A mask passes by.
// Shapes: x [batch, steps, ...], result [batch, steps, what the layer makes of ...].
// TF: tf.keras.layers.TimeDistributed
class TimeDistributed : public Layer {
 public:
  explicit TimeDistributed(const Layer& layer, const TimeDistributedOptions& options = {});
};

}  // namespace tutti::keras::layers
