#pragma once

#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

// An activation as a layer of its own. TF: tf.keras.layers.Activation
class Activation : public Layer {
 public:
  explicit Activation(const activations::Activation& activation, std::string name = {});
};

}  // namespace tutti::keras::layers
