#pragma once

#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

// An activation as a layer of its own; glu halves an axis. TF: tf.keras.layers.Activation
class Activation : public Layer {
 public:
  explicit Activation(const activations::Activation& activation, std::string name = {});
};

struct SoftmaxOptions {
  int64_t axis = -1;
  std::string name = {};
};

// exp(x) / sum(exp(x)) over an axis; elements that a mask hides do not count and become 0. Shapes: any, kept; the mask
// can be repeated to x's. TF: tf.keras.layers.Softmax
class Softmax : public Layer {
 public:
  explicit Softmax(const SoftmaxOptions& options = {});
};

}  // namespace tutti::keras::layers
