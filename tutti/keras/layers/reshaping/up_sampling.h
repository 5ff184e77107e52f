#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

// nearest: each element is repeated. bilinear, of images: between the centers of pixels, as tf.image.resize.
enum class Interpolation { nearest, bilinear };

template <size_t Rank>
struct UpSamplingOptions {
  Size<Rank> size = size_of_all<Rank>(2);  // the factor of each axis
  DataFormat data_format = DataFormat::channels_last;
  Interpolation interpolation = Interpolation::nearest;
  std::string name = {};
};

// Shapes, with channels last: x [N, spatial axes, C], result the same with each spatial extent times its factor.
// TF: tf.keras.layers.UpSampling1D, UpSampling2D, UpSampling3D
template <size_t Rank>
class UpSampling : public Layer {
 public:
  explicit UpSampling(const UpSamplingOptions<Rank>& options = {});
};

using UpSampling1D = UpSampling<1>;
using UpSampling2D = UpSampling<2>;
using UpSampling3D = UpSampling<3>;

}  // namespace tutti::keras::layers
