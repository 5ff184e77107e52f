#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandomHueOptions {
  FractionRange factor = {};               // required: how much of half the circle of hues, either way
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Turns the hues of each image by an angle of its own, while the model is trained. Shapes: x [batch, height, width,
// channels] or [height, width, channels]. A floating-point dtype is kept, others become float32. There are 3 channels.
// Outside of training: x. TF: tf.keras.layers.RandomHue
class RandomHue : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomHue(const RandomHueOptions& options);
};

}  // namespace tutti::keras::layers
