#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

enum class FlipMode { horizontal, vertical, horizontal_and_vertical };

struct RandomFlipOptions {
  FlipMode mode = FlipMode::horizontal_and_vertical;
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Turns half of the images around while the model is trained, each in all directions of the mode or in none.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. Outside of training: x. TF: tf.keras.layers.RandomFlip
class RandomFlip : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomFlip(const RandomFlipOptions& options);
};

}  // namespace tutti::keras::layers
