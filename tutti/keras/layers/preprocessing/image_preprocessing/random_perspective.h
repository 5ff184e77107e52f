#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandomPerspectiveOptions {
  FractionRange factor = 1.0;  // how probable it is for an image
  double scale = 1;            // a corner moves by at most half of this part of its distance from the upper left one
  Interpolation interpolation = Interpolation::bilinear;
  double fill_value = 0;              // of what is outside
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Shows some images from another point of view, while the model is trained: all corners but the upper left one move.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Images of a single row or column stay as they are. Outside of training: x. TF:
// tf.keras.layers.RandomPerspective
class RandomPerspective : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomPerspective(const RandomPerspectiveOptions& options = {});
};

}  // namespace tutti::keras::layers
