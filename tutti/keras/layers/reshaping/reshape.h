#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct ReshapeOptions {
  Shape target_shape = {};  // of a sample; one extent may be -1: what is left over
  std::string name = {};
};

// Shapes: x [N, ...], result [N, target_shape]. TF: tf.keras.layers.Reshape
class Reshape : public Layer {
 public:
  explicit Reshape(const ReshapeOptions& options);
};

struct PermuteOptions {
  std::vector<int64_t> dims = {};  // result axis i is x's axis dims[i]; axes count from 1, the batch being 0
  std::string name = {};
};

// Shapes: x [N, ...] of dims.size() + 1 axes, result [N, x's extents in the order of dims]. The result is a view.
// TF: tf.keras.layers.Permute
class Permute : public Layer {
 public:
  explicit Permute(const PermuteOptions& options);
};

struct RepeatVectorOptions {
  int64_t n = 0;  // required
  std::string name = {};
};

// Shapes: x [N, features], result [N, n, features]. The result is a view. TF: tf.keras.layers.RepeatVector
class RepeatVector : public Layer {
 public:
  explicit RepeatVector(const RepeatVectorOptions& options);
};

}  // namespace tutti::keras::layers
