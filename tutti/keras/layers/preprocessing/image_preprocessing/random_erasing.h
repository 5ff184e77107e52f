#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandomErasingOptions {
  FractionRange factor = 1.0;              // how probable it is for an image
  FractionRange scale = {0.02, 0.33};      // of the sides of the rectangle the squares, as fractions of the image
  std::vector<double> fill_value = {};     // one, or one for each channel; none: noise
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Writes over a rectangle of some images, while the model is trained. Shapes: x [batch, height, width, channels] or
// [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training: x. TF:
// tf.keras.layers.RandomErasing
class RandomErasing : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomErasing(const RandomErasingOptions& options = {});
};

}  // namespace tutti::keras::layers
