#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct RandomTranslationOptions {
  FactorRange height_factor = {};  // required: of the height, down; in [-1, 1]
  FactorRange width_factor = {};   // required: of the width, to the right; in [-1, 1]
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  double fill_value = 0;              // of FillMode::constant
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Moves each image by a distance of its own while the model is trained.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Outside of training: x. TF: tf.keras.layers.RandomTranslation
class RandomTranslation : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomTranslation(const RandomTranslationOptions& options);
};

}  // namespace tutti::keras::layers
