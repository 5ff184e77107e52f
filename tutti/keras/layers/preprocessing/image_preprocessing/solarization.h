#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct SolarizationOptions {
  FractionRange addition_factor = 0.0;     // of the brightest value; is added before
  FractionRange threshold_factor = 0.0;    // of the brightest value; what is not below is inverted
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Inverts the bright pixels of each image, while the model is trained. Shapes: x [batch, height, width, channels] or
// [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training: x. TF:
// tf.keras.layers.Solarization
class Solarization : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit Solarization(const SolarizationOptions& options = {});
};

}  // namespace tutti::keras::layers
