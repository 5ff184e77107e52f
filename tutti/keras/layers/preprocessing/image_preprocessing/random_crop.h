#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct RandomCropOptions {
  int64_t height = 0;                 // required
  int64_t width = 0;                  // required
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// A window of images: while the model is trained, at a place that is drawn for the whole batch; else, and of images
// that are smaller, the largest one in the middle that has the ratio of height to width, resized. Shapes: x [batch,
// height, width, channels] or [height, width, channels]. A floating-point dtype is kept, others become float32. TF:
// tf.keras.layers.RandomCrop
class RandomCrop : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit RandomCrop(const RandomCropOptions& options);
};

}  // namespace tutti::keras::layers
