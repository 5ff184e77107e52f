#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/map_pixels_internal.h"

namespace tutti::keras {
namespace {

void check(const Tensor& images, const Tensor& transforms) {
  const bool right = images.dim() == 4 && images.is_floating_point() && images.size(1) > 0 && images.size(2) > 0 &&
                     transforms.dim() == 2 && transforms.size(1) == 6 &&
                     (transforms.size(0) == 1 || transforms.size(0) == images.size(0));
  if (!right)
    throw Error(ErrorCode::invalid_argument,
                tutti::str("affine_transform: images ", str_list(images.sizes()), " of ",
                           c10::toString(images.scalar_type()), ", transforms ", str_list(transforms.sizes()),
                           "; [batch, height, width, channels] in floating point and [batch, 6] are required"));
}

}  // namespace

Tensor affine_transform(const Tensor& images, const Tensor& transforms, const AffineTransformOptions& options) {
  check(images, transforms);
  const auto numbers = images.options().dtype(at::kFloat);
  const Tensor x = at::arange(images.size(2), numbers), y = at::arange(images.size(1), numbers).unsqueeze(1);
  const std::vector<Tensor> t = transforms.to(numbers).reshape({-1, 6, 1, 1}).unbind(1);
  return map_pixels(images, t[0] * x + t[1] * y + t[2], t[3] * x + t[4] * y + t[5], options);
}

}  // namespace tutti::keras
