#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/convolution.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/gaussian_blur_internal.h"

namespace tutti::keras {
namespace {

Tensor bell(int64_t size, double sigma, const at::TensorOptions& options) {
  const Tensor x = at::arange(size, options) - static_cast<double>(size - 1) / 2;
  const Tensor weights = ((x / sigma).square() * -0.5).exp();
  return weights / weights.sum();
}

}  // namespace

Tensor weighted_around(const Tensor& images, const Tensor& kernel) {
  const int64_t channels = images.size(3), height = kernel.size(0), width = kernel.size(1);
  return at::convolution(images.permute({0, 3, 1, 2}), kernel.expand({channels, 1, height, width}), {}, {1, 1},
                         {height / 2, width / 2}, {1, 1}, /*transposed=*/false, {0, 0}, /*groups=*/channels)
      .permute({0, 2, 3, 1});
}

Tensor gaussian_blur(const Tensor& images, const layers::Size2D& kernel_size, const std::array<double, 2>& sigma) {
  const auto options = images.options().requires_grad(false);
  return weighted_around(weighted_around(images, bell(kernel_size[0], sigma[0], options).unsqueeze(1)),
                         bell(kernel_size[1], sigma[1], options).unsqueeze(0));
}

}  // namespace tutti::keras
