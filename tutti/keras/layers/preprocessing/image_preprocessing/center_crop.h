#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct CenterCropOptions {
  int64_t height = 0;  // required
  int64_t width = 0;   // required
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// The middle of images; of smaller ones the largest window that has the ratio of height to width, resized.
// Shapes: x [batch, height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others
// become float32. TF: tf.keras.layers.CenterCrop
class CenterCrop : public Layer {
 public:
  explicit CenterCrop(const CenterCropOptions& options);
};

}  // namespace tutti::keras::layers
