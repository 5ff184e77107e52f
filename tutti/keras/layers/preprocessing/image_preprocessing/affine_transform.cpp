#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/grid_sampler_2d.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

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

// Where on an axis of `size` pixels the pixel at x of the filled axis comes from.
Tensor inside(const Tensor& x, int64_t size, FillMode mode) {
  switch (mode) {
    case FillMode::constant: return x;
    case FillMode::nearest: break;
    case FillMode::reflect: {
      const Tensor folded = at::where(x < 0, -x - 1, x).remainder(2 * size);
      return at::where(folded < size, folded, (2 * size - 1) - folded).clamp(0, size - 1);
    }
    case FillMode::wrap: return x.remainder(size).clamp(0, size - 1);
  }
  return x.clamp(0, size - 1);
}

// Halves away from 0.
Tensor rounded(const Tensor& x) { return (x.abs() + 0.5).floor() * x.sign(); }

}  // namespace

Tensor affine_transform(const Tensor& images, const Tensor& transforms, const AffineTransformOptions& options) {
  check(images, transforms);
  const auto& [interpolation, fill_mode, fill_value] = options;
  const bool nearest = interpolation == Interpolation::nearest;
  const int64_t height = images.size(1), width = images.size(2);
  const auto numbers = images.options().dtype(at::kFloat);
  const Tensor x = at::arange(width, numbers), y = at::arange(height, numbers).unsqueeze(1);
  const std::vector<Tensor> t = transforms.to(numbers).reshape({-1, 6, 1, 1}).unbind(1);
  // As LibTorch counts: -1 and 1 are the edges of the first and the last pixel.
  const auto sampled = [&](const Tensor& at, int64_t size) {
    const Tensor from = inside(at, size, fill_mode);
    return ((nearest ? rounded(from) : from) * 2 + 1) / size - 1;
  };
  const Tensor grid =
      at::stack({sampled(t[0] * x + t[1] * y + t[2], width), sampled(t[3] * x + t[4] * y + t[5], height)}, -1)
          .expand({images.size(0), height, width, 2});
  constexpr int64_t kBilinear = 0, kNearest = 1, kZeros = 0, kBorder = 1;
  const Tensor filled = (images.to(at::kFloat) - fill_value).permute({0, 3, 1, 2});  // outside is 0
  return (at::grid_sampler_2d(filled, grid, nearest ? kNearest : kBilinear,
                              fill_mode == FillMode::constant ? kZeros : kBorder, /*align_corners=*/false)
              .permute({0, 2, 3, 1}) +
          fill_value)
      .to(images.scalar_type());
}

}  // namespace tutti::keras
