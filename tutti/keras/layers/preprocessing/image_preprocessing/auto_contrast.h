#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct AutoContrastOptions {
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Stretches each channel of each image, so that it reaches from the darkest to the brightest value; one of a single
// value stays as it is. In training and outside of it. Shapes: x [batch, height, width, channels] or [height, width,
// channels]. A floating-point dtype is kept, others become float32. TF: tf.keras.layers.AutoContrast
class AutoContrast : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit AutoContrast(const AutoContrastOptions& options = {});
};

}  // namespace tutti::keras::layers
