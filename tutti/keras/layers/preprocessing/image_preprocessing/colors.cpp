#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"

namespace tutti::keras {

Tensor rescaled(const Tensor& images, const FactorRange& from, const FactorRange& to) {
  if (from == to) return images;
  return (images - from.lower) / (from.upper - from.lower) * (to.upper - to.lower) + to.lower;
}

Tensor grey_of(const Tensor& images) {
  if (images.size(-1) == 1) return images;
  const std::vector<Tensor> rgb = images.split(1, -1);
  return 0.2989 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

std::array<Tensor, 3> hsv_of(const Tensor& images) {
  const std::vector<Tensor> rgb = images.unbind(-1);
  const Tensor &red = rgb[0], &green = rgb[1], &blue = rgb[2];
  const Tensor value = at::maximum(at::maximum(red, green), blue);
  const Tensor range = value - at::minimum(at::minimum(red, green), blue);
  const Tensor zero = at::zeros_like(value), one = at::ones_like(value);
  const Tensor sixth = 1 / (6 * at::where(range > 0, range, one));
  const Tensor others = at::where(value == green, sixth * (blue - red) + 2.0 / 6, sixth * (red - green) + 4.0 / 6);
  const Tensor angle = at::where(range > 0, at::where(value == red, sixth * (green - blue), others), zero);
  return {at::where(angle < 0, angle + 1, angle), at::where(value > 0, range / at::where(value > 0, value, one), zero),
          value};
}

Tensor image_of(const std::array<Tensor, 3>& hsv) {
  const auto& [hue, saturation, value] = hsv;
  const Tensor angle = hue.remainder(1) * 6;
  const auto color = [&](const Tensor& pure) { return value * (1 - saturation + saturation * pure.clamp(0, 1)); };
  return at::stack({color((angle - 3).abs() - 1), color(2 - (angle - 2).abs()), color(2 - (angle - 4).abs())}, -1);
}

Tensor for_images(const Tensor& numbers, const Tensor& images) {
  return numbers.to(images.scalar_type()).reshape({-1, 1, 1, 1});
}

Tensor where_drawn(const Tensor& numbers, const Tensor& probabilities, const Tensor& changed, const Tensor& images) {
  return at::where((numbers < probabilities).reshape({-1, 1, 1, 1}), changed, images);
}

}  // namespace tutti::keras
