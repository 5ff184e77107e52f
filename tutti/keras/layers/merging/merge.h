#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct MergeOptions {
  std::string name = {};
};

// Layers that combine several inputs elementwise. Shapes: [N, ...], broadcast against each other; inputs of fewer axes
// get extents of 1 behind the batch. Where each input has a mask, a step of the result counts if it does in any input;
// else there is none. What becomes of a step that an input hides each layer says; the mask of an input that gets axes
// hides nothing in it. TF: tf.keras.layers.Add, …

// Of hidden steps too.
class Add : public Layer {
 public:
  explicit Add(const MergeOptions& options = {});
};

// The first less the second, of hidden steps too. Two inputs.
class Subtract : public Layer {
 public:
  explicit Subtract(const MergeOptions& options = {});
};

// A step that an input hides is 1 there; one that is hidden in all of them becomes 0.
class Multiply : public Layer {
 public:
  explicit Multiply(const MergeOptions& options = {});
};

// The sum over the number of inputs, of hidden steps too.
class Average : public Layer {
 public:
  explicit Average(const MergeOptions& options = {});
};

// Of the inputs that do not hide the step.
class Maximum : public Layer {
 public:
  explicit Maximum(const MergeOptions& options = {});
};

// Of the inputs that do not hide the step.
class Minimum : public Layer {
 public:
  explicit Minimum(const MergeOptions& options = {});
};

}  // namespace tutti::keras::layers
