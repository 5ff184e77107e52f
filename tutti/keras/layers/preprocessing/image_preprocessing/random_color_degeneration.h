#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct RandomColorDegenerationOptions {
  FactorRange factor = {};                 // required: 0 leaves the image, 1 makes it grey; in [-1, 1]
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Takes part of the colour out of each image, while the model is trained. Shapes: x [batch, height, width, channels] or
// [height, width, channels]. A floating-point dtype is kept, others become float32. There are 3 channels or 1. Outside
// of training: x. TF: tf.keras.layers.RandomColorDegeneration
class RandomColorDegeneration : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomColorDegeneration(const RandomColorDegenerationOptions& options);
};

}  // namespace tutti::keras::layers
