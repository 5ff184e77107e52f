#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct AdaptivePoolingOptions {
  Size<Rank> output_size = {};  // required
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// The mean of each of output_size windows that cover an axis of n elements: window i those from floor(i * n /
// output_size) to ceil((i + 1) * n / output_size). Shapes, with channels last: x [N, spatial axes, C], result [N,
// output_size, C]. TF: tf.keras.layers.AdaptiveAveragePooling1D, 2D, 3D
template <size_t Rank>
class AdaptiveAveragePooling : public Layer {
 public:
  explicit AdaptiveAveragePooling(const AdaptivePoolingOptions<Rank>& options);
};

// The largest value of each window. Shapes: as AdaptiveAveragePooling.
// TF: tf.keras.layers.AdaptiveMaxPooling1D, 2D, 3D
template <size_t Rank>
class AdaptiveMaxPooling : public Layer {
 public:
  explicit AdaptiveMaxPooling(const AdaptivePoolingOptions<Rank>& options);
};

using AdaptiveAveragePooling1D = AdaptiveAveragePooling<1>;
using AdaptiveAveragePooling2D = AdaptiveAveragePooling<2>;
using AdaptiveAveragePooling3D = AdaptiveAveragePooling<3>;

using AdaptiveMaxPooling1D = AdaptiveMaxPooling<1>;
using AdaptiveMaxPooling2D = AdaptiveMaxPooling<2>;
using AdaptiveMaxPooling3D = AdaptiveMaxPooling<3>;

}  // namespace tutti::keras::layers
