#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct RandomShearOptions {
  FactorRange x_factor = 0.0;  // in [-1, 1]
  FactorRange y_factor = 0.0;
  Interpolation interpolation = Interpolation::bilinear;
  FillMode fill_mode = FillMode::reflect;
  double fill_value = 0;              // of FillMode::constant
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Shears each image from its upper left corner, while the model is trained. Shapes: x [batch, height, width, channels]
// or [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training: x. TF:
// tf.keras.layers.RandomShear
class RandomShear : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomShear(const RandomShearOptions& options = {});
};

}  // namespace tutti::keras::layers
