#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct GlobalPoolingOptions {
  DataFormat data_format = DataFormat::channels_last;
  bool keepdims = false;  // leave spatial axes of one element
  std::string name = {};
};

// The largest value of each channel. Shapes, with channels last: x [N, spatial axes, C], result [N, C], with keepdims
// [N, 1 for each axis, C]. TF: tf.keras.layers.GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
template <size_t Rank>
class GlobalMaxPooling : public Layer {
 public:
  explicit GlobalMaxPooling(const GlobalPoolingOptions& options = {});
};

// The mean of each channel; of a sequence with a mask, over the steps that it shows. Shapes: as GlobalMaxPooling. TF:
// tf.keras.layers.GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D
template <size_t Rank>
class GlobalAveragePooling : public Layer {
 public:
  explicit GlobalAveragePooling(const GlobalPoolingOptions& options = {});
};

using GlobalMaxPooling1D = GlobalMaxPooling<1>;
using GlobalMaxPooling2D = GlobalMaxPooling<2>;
using GlobalMaxPooling3D = GlobalMaxPooling<3>;

using GlobalAveragePooling1D = GlobalAveragePooling<1>;
using GlobalAveragePooling2D = GlobalAveragePooling<2>;
using GlobalAveragePooling3D = GlobalAveragePooling<3>;

}  // namespace tutti::keras::layers
