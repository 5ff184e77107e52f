#pragma once

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras::layers {

// Where a model begins. As the first layer of a Sequential it says which inputs the model takes, which is then built at
// once. Refuses inputs of another shape. TF: tf.keras.layers.InputLayer
class InputLayer : public Layer {
 public:
  explicit InputLayer(const InputLayerOptions& options);
};

}  // namespace tutti::keras::layers
