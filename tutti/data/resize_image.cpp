#include "tutti/data/resize_image.h"

#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

double sinc(double x) {
  const double angle = std::numbers::pi * x;
  return std::abs(x) < 1e-3 ? 1 : std::sin(angle) / angle;
}

struct Kernel {
  ResizeMethod method;

  double radius() const {
    switch (method) {
      case ResizeMethod::nearest:
      case ResizeMethod::bilinear: return 1;
      case ResizeMethod::bicubic: return 2;
      case ResizeMethod::lanczos3: return 3;
      case ResizeMethod::lanczos5: return 5;
    }
    return 0;
  }

  double operator()(double distance) const {
    const double x = std::abs(distance);
    if (x >= radius()) return 0;
    switch (method) {
      case ResizeMethod::nearest:
      case ResizeMethod::bilinear: return 1 - x;
      case ResizeMethod::bicubic: return x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1;
      case ResizeMethod::lanczos3:
      case ResizeMethod::lanczos5: return sinc(x) * sinc(x / radius());
    }
    return 0;
  }
};

// How much of each old pixel is in each new one, along one axis: [new_size, old_size]. Source: TensorFlow's
// ScaleAndTranslate.
Tensor resize_weights(int64_t old_size, int64_t new_size, const ResizeOptions& options) {
  const Kernel kernel{options.method};
  const double step = static_cast<double>(old_size) / static_cast<double>(new_size);
  const double width = options.antialias ? std::max(step, 1.0) : 1.0;
  Tensor weights = at::zeros({new_size, old_size}, at::kFloat);
  for (int64_t row = 0; row < new_size; ++row) {
    const double centre = (static_cast<double>(row) + 0.5) * step - 0.5;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - kernel.radius() * width)));
    const auto last = std::min(old_size - 1, static_cast<int64_t>(std::floor(centre + kernel.radius() * width)));
    const auto weight = [&](int64_t i) { return kernel((static_cast<double>(i) - centre) / width); };
    double sum = 0;
    for (int64_t i = first; i <= last; ++i) sum += weight(i);
    float* out = weights.mutable_data_ptr<float>() + row * old_size;
    for (int64_t i = first; i <= last; ++i) out[i] = static_cast<float>(weight(i) / sum);
  }
  return weights;
}

// images [batch, height, width, channels], float32.
Tensor resize(const Tensor& images, int64_t height, int64_t width, const ResizeOptions& options) {
  const Tensor channels_first = images.permute({0, 3, 1, 2});
  if (options.method == ResizeMethod::nearest)
    return at::_upsample_nearest_exact2d(channels_first, {height, width}).permute({0, 2, 3, 1});
  if (options.method == ResizeMethod::bilinear && !options.antialias)
    return at::upsample_bilinear2d(channels_first, {height, width}, false).permute({0, 2, 3, 1});
  const Tensor rows = resize_weights(images.size(1), height, options).to(images.device());
  const Tensor columns = resize_weights(images.size(2), width, options).to(images.device());
  return at::einsum("hi,niwc->nhwc", {rows, at::einsum("wj,nijc->niwc", {columns, images})});
}

}  // namespace

Tensor resize_image(const Tensor& image, int64_t height, int64_t width, const ResizeOptions& options) {
  const bool is_image = image.dim() == 3 || image.dim() == 4;
  if (!is_image || image.size(-3) * image.size(-2) * image.size(-1) == 0 || height < 1 || width < 1)
    throw Error(ErrorCode::invalid_argument,
                str("resize_image: an image ", str_list(image.sizes()), " to ", height, " x ", width,
                    "; [height, width, channels] or [batch, height, width, channels] and sizes from 1 are required"));
  if (image.size(-3) == height && image.size(-2) == width) return image.to(at::kFloat);
  const Tensor images = (image.dim() == 3 ? image.unsqueeze(0) : image).to(at::kFloat);
  if (images.size(0) == 0) return images.new_zeros({0, height, width, images.size(3)});
  const Tensor resized = resize(images, height, width, options).contiguous();
  return image.dim() == 3 ? resized.squeeze(0) : resized;
}

}  // namespace tutti::data
