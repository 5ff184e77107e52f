#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct DotOptions {
  int64_t first_axis = -1;  // of each input the axis that is summed over; negative: from the last; not the batch
  int64_t second_axis = -1;
  bool normalize = false;  // to length 1 along the axes before: the result is the cosine of the angle
  std::string name = {};
};

// The products of two inputs, sample by sample, summed over one axis of each. Shapes: [N, a..., k, b...] and
// [N, c..., k, d...]; result [N, a..., b..., c..., d...], or [N, 1] of vectors. TF: tf.keras.layers.Dot
class Dot : public Layer {
 public:
  explicit Dot(const DotOptions& options = {});
};

}  // namespace tutti::keras::layers
