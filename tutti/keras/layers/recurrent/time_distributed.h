#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct TimeDistributedOptions {
  std::string name = {};
};

// A layer of one input and one output, applied to each step of a sequence: all steps of a batch are one large batch for
// it. So are those of a mask [batch, steps, ...], which the layer gets; where it makes none of it, the result's mask
// says which steps have something in them that counts. A mask [batch, steps] passes by; a layer of vectors gets it,
// too. Shapes: x [batch, steps, ...], result [batch, steps, what the layer makes of ...]. TF:
// tf.keras.layers.TimeDistributed
class TimeDistributed : public Layer {
 public:
  explicit TimeDistributed(const Layer& layer, const TimeDistributedOptions& options = {});
};

}  // namespace tutti::keras::layers
