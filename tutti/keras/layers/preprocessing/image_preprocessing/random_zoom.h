#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct RandomZoomOptions {
  FactorRange height_factor = {};                // required; in [-1, 1], more than 0 zooms out
  std::optional<FactorRange> width_factor = {};  // else the width changes as the height does
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  double fill_value = 0;              // of FillMode::constant
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Zooms each image in or out around its middle, by a factor of its own, while the model is trained.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Outside of training: x. TF: tf.keras.layers.RandomZoom
class RandomZoom : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomZoom(const RandomZoomOptions& options);
};

}  // namespace tutti::keras::layers
