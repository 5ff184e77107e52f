#pragma once

#include <cstdint>
#include <string>

#include "tutti/data/resize_image.h"
#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

enum class AspectRatio {
  change,  // the whole image is stretched
  crop,    // the largest window in its middle is taken that has the ratio of the result
  pad,     // the image is surrounded evenly by fill_value until it has the ratio
};

struct ResizingOptions {
  int64_t height = 0;  // required
  int64_t width = 0;   // required
  data::ResizeMethod interpolation = data::ResizeMethod::bilinear;
  AspectRatio aspect_ratio = AspectRatio::change;  // crop: crop_to_aspect_ratio; pad: pad_to_aspect_ratio
  double fill_value = 0;
  bool antialias = false;  // where the image becomes smaller
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Images in another size. Shapes: x [batch, height, width, channels] or [height, width, channels]. The dtype is kept;
// integers are rounded, and cut to what the dtype holds.
// TF: tf.keras.layers.Resizing
class Resizing : public Layer {
 public:
  explicit Resizing(const ResizingOptions& options);
};

}  // namespace tutti::keras::layers
