#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct RandomGrayscaleOptions {
  double factor = 0.5;                // how probable it is
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Makes some images grey, while the model is trained. Shapes: x [batch, height, width, channels] or [height, width,
// channels]. A floating-point dtype is kept, others become float32. There are 3 channels or 1, and stay. Outside of
// training: x. TF: tf.keras.layers.RandomGrayscale
class RandomGrayscale : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomGrayscale(const RandomGrayscaleOptions& options = {});
};

}  // namespace tutti::keras::layers
