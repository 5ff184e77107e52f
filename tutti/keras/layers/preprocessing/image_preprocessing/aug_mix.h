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

struct AugMixOptions {
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  int64_t num_chains = 3;
  int64_t chain_depth = 3;     // layers of a chain, of which some are left out
  FractionRange factor = 0.3;  // of each layer
  double alpha = 1;            // of the distributions of the weights
  bool all_ops = true;         // else without those that change colours
  Interpolation interpolation = Interpolation::bilinear;
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Mixes the batch with chains of the layers of RandAugment, which it draws for each batch, while the model is trained.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Outside of training: x. TF: tf.keras.layers.AugMix
class AugMix : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit AugMix(const AugMixOptions& options = {});
};

}  // namespace tutti::keras::layers
