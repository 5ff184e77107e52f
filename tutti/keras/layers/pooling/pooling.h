#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct PoolingOptions {
  Size<Rank> pool_size = size_of_all<Rank>(2);
  Size<Rank> strides = {};  // {}: pool_size
  Padding padding = Padding::valid;
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// The largest value of each window. Shapes, with channels last: x [N, spatial axes, C], result [N, windows on each
// axis, C]. TF: tf.keras.layers.MaxPooling1D, MaxPooling2D, MaxPooling3D
template <size_t Rank>
class MaxPooling : public Layer {
 public:
  explicit MaxPooling(const PoolingOptions<Rank>& options = {});
};

// The mean of each window; padding does not count. Shapes: as MaxPooling.
// TF: tf.keras.layers.AveragePooling1D, AveragePooling2D, AveragePooling3D
template <size_t Rank>
class AveragePooling : public Layer {
 public:
  explicit AveragePooling(const PoolingOptions<Rank>& options = {});
};

using MaxPooling1DOptions = PoolingOptions<1>;
using MaxPooling2DOptions = PoolingOptions<2>;
using MaxPooling3DOptions = PoolingOptions<3>;
using MaxPooling1D = MaxPooling<1>;
using MaxPooling2D = MaxPooling<2>;
using MaxPooling3D = MaxPooling<3>;

using AveragePooling1DOptions = PoolingOptions<1>;
using AveragePooling2DOptions = PoolingOptions<2>;
using AveragePooling3DOptions = PoolingOptions<3>;
using AveragePooling1D = AveragePooling<1>;
using AveragePooling2D = AveragePooling<2>;
using AveragePooling3D = AveragePooling<3>;

}  // namespace tutti::keras::layers
