#include "tutti/keras/layers/preprocessing/image_preprocessing/map_pixels_internal.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/grid_sampler_2d.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

namespace tutti::keras {
namespace {

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

Tensor map_pixels(const Tensor& images, const Tensor& x, const Tensor& y, const AffineTransformOptions& options) {
  const auto& [interpolation, fill_mode, fill_value] = options;
  const bool nearest = interpolation == Interpolation::nearest;
  const int64_t height = images.size(1), width = images.size(2);
  // As LibTorch counts: -1 and 1 are the edges of the first and the last pixel.
  const auto sampled = [&](const Tensor& at, int64_t size) {
    const Tensor from = inside(at, size, fill_mode);
    return ((nearest ? rounded(from) : from) * 2 + 1) / size - 1;
  };
  const Tensor grid = at::stack({sampled(x, width), sampled(y, height)}, -1).expand({images.size(0), height, width, 2});
  constexpr int64_t kBilinear = 0, kNearest = 1, kZeros = 0, kBorder = 1;
  const Tensor filled = (images.to(at::kFloat) - fill_value).permute({0, 3, 1, 2});  // outside is 0
  return (at::grid_sampler_2d(filled, grid, nearest ? kNearest : kBilinear,
                              fill_mode == FillMode::constant ? kZeros : kBorder, /*align_corners=*/false)
              .permute({0, 2, 3, 1}) +
          fill_value)
      .to(images.scalar_type());
}

}  // namespace tutti::keras
