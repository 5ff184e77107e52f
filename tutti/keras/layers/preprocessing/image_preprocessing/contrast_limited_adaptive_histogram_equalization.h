#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

struct ContrastLimitedAdaptiveHistogramEqualizationOptions {
  FactorRange value_range = {0.0, 255.0};  // the darkest and the brightest value
  double clip_limit = 4;           // of a bin, over what each would hold if all values were equally frequent; 0: none
  Size2D tile_grid_size = {8, 8};  // rows and columns of tiles
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Makes the values of each channel equally frequent in each tile of an image, as far as the limit lets it, and between
// the middles of tiles something in between. In training and outside of it. Shapes: x [batch, height, width, channels]
// or [height, width, channels]. A floating-point dtype is kept, others become float32. TF:
// tf.keras.layers.ContrastLimitedAdaptiveHistogramEqualization
class ContrastLimitedAdaptiveHistogramEqualization : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit ContrastLimitedAdaptiveHistogramEqualization(
      const ContrastLimitedAdaptiveHistogramEqualizationOptions& options = {});
};

}  // namespace tutti::keras::layers
