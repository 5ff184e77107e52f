#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct MergeOptions {
  std::string name = {};
};

// Layers that combine several inputs elementwise. Shapes: [N, ...], broadcast against each other; inputs of fewer axes
// get extents of 1 behind the batch. A step counts if it does in any input, and there only the inputs count in which it
// does; without a mask in each input there is none. TF: tf.keras.layers.Add, …
class Add : public Layer {
 public:
  explicit Add(const MergeOptions& options = {});
};

// The first less the second. Two inputs.
class Subtract : public Layer {
 public:
  explicit Subtract(const MergeOptions& options = {});
};

class Multiply : public Layer {
 public:
  explicit Multiply(const MergeOptions& options = {});
};

// The sum over the number of inputs.
class Average : public Layer {
 public:
  explicit Average(const MergeOptions& options = {});
};

class Maximum : public Layer {
 public:
  explicit Maximum(const MergeOptions& options = {});
};

class Minimum : public Layer {
 public:
  explicit Minimum(const MergeOptions& options = {});
};

}  // namespace tutti::keras::layers
