#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandAugmentOptions {
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  int64_t num_ops = 2;
  FractionRange factor = 0.5;  // of each
  Interpolation interpolation = Interpolation::bilinear;
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Applies so many of eleven layers, which it draws for each batch, one after the other, while the model is trained:
// RandomShear, RandomTranslation, RandomRotation, RandomBrightness, RandomColorDegeneration, RandomContrast,
// RandomSharpness, RandomPosterization, Solarization, AutoContrast and Equalization. Shapes: x [batch, height, width,
// channels] or [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training:
// x. TF: tf.keras.layers.RandAugment
class RandAugment : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandAugment(const RandAugmentOptions& options = {});
};

}  // namespace tutti::keras::layers
