#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandomSharpnessOptions {
  FractionRange factor = {};               // required: 0 blurs an image, 0.5 leaves it, 1 sharpens it
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Blurs or sharpens each image, while the model is trained. Shapes: x [batch, height, width, channels] or [height,
// width, channels]. A floating-point dtype is kept, others become float32. Outside of training: x. TF:
// tf.keras.layers.RandomSharpness
class RandomSharpness : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomSharpness(const RandomSharpnessOptions& options);
};

}  // namespace tutti::keras::layers
