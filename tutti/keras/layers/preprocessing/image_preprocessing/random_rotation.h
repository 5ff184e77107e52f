#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct RandomRotationOptions {
  FactorRange factor = {};  // required: of turns, counter-clockwise; in [-1, 1]
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  double fill_value = 0;              // of FillMode::constant
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Rotates each image around its middle, by an angle of its own, while the model is trained.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Outside of training: x. TF: tf.keras.layers.RandomRotation
class RandomRotation : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomRotation(const RandomRotationOptions& options);
};

}  // namespace tutti::keras::layers
