#pragma once

#include <functional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct LambdaOptions {
  std::function<Tensor(const Tensor&)> function = {};  // required; all replicas call it at once
  // The shape of the result; without it the function is called with zeros to find out.
  std::function<Shape(const Shape&)> output_shape = {};
  std::string name = {};
};

// A function as a layer. It has no weights: what the function captures is not trained.
// TF: tf.keras.layers.Lambda
class Lambda : public Layer {
 public:
  explicit Lambda(const LambdaOptions& options);
};

struct IdentityOptions {
  std::string name = {};
};

// x itself. TF: tf.keras.layers.Identity
class Identity : public Layer {
 public:
  explicit Identity(const IdentityOptions& options = {});
};

}  // namespace tutti::keras::layers
