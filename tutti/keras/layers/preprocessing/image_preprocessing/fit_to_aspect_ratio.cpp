#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "tutti/data/resize_image.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fit_to_aspect_ratio_internal.h"

namespace tutti::keras::layers {
namespace {

// The height at a width, and the width at a height, that have the ratio of `size`.
Size2D with_ratio(const Tensor& images, const Size2D& size) {
  return {images.size(2) * size[0] / size[1], images.size(1) * size[1] / size[0]};
}

}  // namespace

Tensor crop_center(const Tensor& images, const Size2D& size) {
  const auto cut = [&](const Tensor& x, int64_t axis, int64_t extent) {
    return x.narrow(axis, (x.size(axis) - extent) / 2, extent);
  };
  return cut(cut(images, 1, size[0]), 2, size[1]);
}

Tensor crop_to_aspect_ratio(const Tensor& images, const Size2D& size) {
  const auto [height, width] = with_ratio(images, size);
  return crop_center(images,
                     {std::clamp<int64_t>(height, 1, images.size(1)), std::clamp<int64_t>(width, 1, images.size(2))});
}

Tensor crop_and_resize(const Tensor& images, const Size2D& size) {
  return data::resize_image(crop_to_aspect_ratio(images, size), size[0], size[1]).to(images.scalar_type());
}

Tensor pad_to_aspect_ratio(const Tensor& images, const Size2D& size, double value) {
  const auto [height, width] = with_ratio(images, size);
  const int64_t rows = std::max<int64_t>(0, height - images.size(1)) / 2;
  const int64_t columns = std::max<int64_t>(0, width - images.size(2)) / 2;
  return at::constant_pad_nd(images, {0, 0, columns, columns, rows, rows}, value);
}

}  // namespace tutti::keras::layers
