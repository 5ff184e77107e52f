#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras::layers {

struct HashedCrossingOptions {
  int64_t num_bins = 0;                       // required
  OutputMode output_mode = OutputMode::int_;  // or one_hot
  std::string name = {};
};

// The bins of combinations: one for what two or more features are together, by a hash that is the same everywhere. As a
// Layer of several inputs it maps Tensors of an integer dtype; a feature may also be text. The result is on the CPU. No
// gradient.
// Shapes: each [], [N] or [N, 1], all alike; result as the inputs for int_, [..., num_bins] for one_hot, where an axis
//   of size 1 gives way to it.
// Dtype:  int64 for int_, else float32.
// TF: tf.keras.layers.HashedCrossing
class HashedCrossing : public Layer {
 public:
  using Feature = std::variant<Tensor, Strings>;

  explicit HashedCrossing(const HashedCrossingOptions& options);

  using Layer::operator();
  Tensor operator()(const std::vector<Feature>& features) const;

 private:
  class Impl;
};

}  // namespace tutti::keras::layers
