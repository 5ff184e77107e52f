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

struct RandomElasticTransformOptions {
  FractionRange factor = 1.0;  // how probable it is for an image
  FractionRange scale = 1.0;   // how strong it is: one for a batch
  Interpolation interpolation = Interpolation::bilinear;
  FillMode fill_mode = FillMode::reflect;
  double fill_value = 0;                   // of FillMode::constant
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Moves the pixels of some images, smoothly and at random, while the model is trained. Shapes: x [batch, height, width,
// channels] or [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training:
// x. TF: tf.keras.layers.RandomElasticTransform
class RandomElasticTransform : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomElasticTransform(const RandomElasticTransformOptions& options = {});
};

}  // namespace tutti::keras::layers
