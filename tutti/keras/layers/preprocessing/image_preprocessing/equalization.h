#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras::layers {

struct EqualizationOptions {
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  int64_t bins = 256;                      // of the histograms
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Makes all values of each channel of an image about equally frequent, while the model is trained: each image by its
// own histogram. Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is
// kept, others become float32. Outside of training: x. TF: tf.keras.layers.Equalization
class Equalization : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit Equalization(const EqualizationOptions& options = {});
};

}  // namespace tutti::keras::layers
