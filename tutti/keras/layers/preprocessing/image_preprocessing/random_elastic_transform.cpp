#include "tutti/keras/layers/preprocessing/image_preprocessing/random_elastic_transform.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <algorithm>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/gaussian_blur_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/map_pixels_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomElasticTransformImpl : public RandomImageLayerImpl {
 public:
  explicit RandomElasticTransformImpl(const RandomElasticTransformOptions& options)
      : RandomImageLayerImpl("RandomElasticTransform", options.name, options.data_format, options.seed),
        options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_range("scale", options_.scale, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const Tensor probabilities = draws.uniform(options_.factor), numbers = draws.uniform({0, 1});
    const double strength = draws.one(options_.scale);
    const int64_t height = images.size(1), width = images.size(2);
    const double reach = static_cast<double>(std::max(height, width)) * 0.1 * strength;
    const double sigma = static_cast<double>(std::min(height, width)) * 0.05 * strength;
    const auto moves = [&] {
      const Tensor noise = draws.normal({height, width, 1}) * sigma;
      const int64_t size = static_cast<int64_t>(6 * sigma) | 1;
      return gaussian_blur(noise, {size, size}, {sigma, sigma}).squeeze(-1) * reach;
    };
    if (sigma <= 0) return images;
    const auto options = images.options().dtype(at::kFloat).requires_grad(false);
    const Tensor x = at::arange(width, options) + moves();
    const Tensor y = at::arange(height, options).unsqueeze(1) + moves();
    const Tensor changed = map_pixels(
        images, x, y,
        {.interpolation = options_.interpolation, .fill_mode = options_.fill_mode, .fill_value = options_.fill_value});
    return where_drawn(numbers, probabilities, changed, images)
        .clamp(options_.value_range.lower, options_.value_range.upper);
  }

 private:
  RandomElasticTransformOptions options_;
};

}  // namespace

RandomElasticTransform::RandomElasticTransform(const RandomElasticTransformOptions& options)
    : Layer(std::make_shared<RandomElasticTransformImpl>(options)) {}

}  // namespace tutti::keras::layers
