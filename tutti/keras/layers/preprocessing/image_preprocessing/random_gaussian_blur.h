#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

struct RandomGaussianBlurOptions {
  FractionRange factor = 1.0;              // how probable it is for an image
  Size2D kernel_size = {3, 3};             // height and width, both odd
  FractionRange sigma = 1.0;               // in pixels; one for the height and one for the width of a batch
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  std::optional<uint64_t> seed = {};       // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Blurs some images, with zeros around them, while the model is trained. Shapes: x [batch, height, width, channels] or
// [height, width, channels]. A floating-point dtype is kept, others become float32. Outside of training: x. TF:
// tf.keras.layers.RandomGaussianBlur
class RandomGaussianBlur : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomGaussianBlur(const RandomGaussianBlurOptions& options = {});
};

}  // namespace tutti::keras::layers
