#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct RandomColorJitterOptions {
  FactorRange value_range = {0.0, 255.0};               // the darkest and the brightest value
  std::optional<FactorRange> brightness_factor = {};    // as in RandomBrightness; nothing: it is left as it is
  std::optional<FactorRange> contrast_factor = {};      // as in RandomContrast
  std::optional<FractionRange> saturation_factor = {};  // as in RandomSaturation
  std::optional<FractionRange> hue_factor = {};         // as in RandomHue
  std::optional<uint64_t> seed = {};                    // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Changes brightness, contrast, saturation and hue of each image, one after the other, while the model is trained.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Outside of training: x. TF: tf.keras.layers.RandomColorJitter
class RandomColorJitter : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomColorJitter(const RandomColorJitterOptions& options = {});
};

}  // namespace tutti::keras::layers
