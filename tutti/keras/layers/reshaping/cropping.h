#pragma once

#include <array>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

// What is cut off or added at the front and the back of each spatial axis: of images {top, bottom, left, right}.
template <size_t Rank>
using AllMargins = std::array<Margins, Rank>;

// The same number at both ends of all axes.
template <size_t Rank>
constexpr AllMargins<Rank> margins_of_all(int64_t extent) {
  AllMargins<Rank> margins{};
  margins.fill({.front = extent, .back = extent});
  return margins;
}

template <size_t Rank>
struct CroppingOptions {
  AllMargins<Rank> cropping = margins_of_all<Rank>(Rank == 2 ? 0 : 1);  // Keras's defaults
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// What is left of x between margins, a view. Shapes, with channels last: x [N, spatial axes, C], result the same less
// the margins. TF: tf.keras.layers.Cropping1D, Cropping2D, Cropping3D
template <size_t Rank>
class Cropping : public Layer {
 public:
  explicit Cropping(const CroppingOptions<Rank>& options = {});
};

template <size_t Rank>
struct ZeroPaddingOptions {
  AllMargins<Rank> padding = margins_of_all<Rank>(1);
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// x with margins of zeros. Shapes, with channels last: x [N, spatial axes, C], result the same plus the margins.
// TF: tf.keras.layers.ZeroPadding1D, ZeroPadding2D, ZeroPadding3D
template <size_t Rank>
class ZeroPadding : public Layer {
 public:
  explicit ZeroPadding(const ZeroPaddingOptions<Rank>& options = {});
};

using Cropping1D = Cropping<1>;
using Cropping2D = Cropping<2>;
using Cropping3D = Cropping<3>;

using ZeroPadding1D = ZeroPadding<1>;
using ZeroPadding2D = ZeroPadding<2>;
using ZeroPadding3D = ZeroPadding<3>;

}  // namespace tutti::keras::layers
