#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

// A single number b stands for {1, b}.
struct Bits {
  int64_t lower = 0;
  int64_t upper = 0;

  constexpr Bits() = default;
  constexpr Bits(int64_t bits) : lower(1), upper(bits) {}
  constexpr Bits(int64_t lower, int64_t upper) : lower(lower), upper(upper) {}
  bool operator==(const Bits&) const = default;
};

struct RandomPosterizationOptions {
  Bits factor = {};  // required: of 8 that a value has, how many are left; {l, u}: l to u - 1, or always l if u is l
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Leaves fewer different values to each image, while the model is trained. Shapes: x [batch, height, width, channels]
// or [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training: x. TF:
// tf.keras.layers.RandomPosterization
class RandomPosterization : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomPosterization(const RandomPosterizationOptions& options);
};

}  // namespace tutti::keras::layers
