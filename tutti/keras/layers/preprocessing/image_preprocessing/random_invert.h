#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandomInvertOptions {
  FractionRange factor = 1.0;              // how probable it is
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Inverts some images, while the model is trained: the brightest value minus x. Shapes: x [batch, height, width,
// channels] or [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training:
// x. TF: tf.keras.layers.RandomInvert
class RandomInvert : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomInvert(const RandomInvertOptions& options = {});
};

}  // namespace tutti::keras::layers
