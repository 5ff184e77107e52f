#include "tutti/keras/layers/preprocessing/image_preprocessing/random_contrast.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomContrastImpl : public RandomImageLayerImpl {
 public:
  explicit RandomContrastImpl(const RandomContrastOptions& options)
      : RandomImageLayerImpl("RandomContrast", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, -1, 1);
  }

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const auto [lower, upper] = options_.factor;
    const Tensor contrast = draws.uniform({1 - std::abs(lower), 1 + upper});
    const Tensor mean = images.mean(at::IntArrayRef{1, 2}, /*keepdim=*/true);
    return ((images - mean) * contrast.to(images.scalar_type()).reshape({-1, 1, 1, 1}) + mean)
        .clamp(options_.value_range.lower, options_.value_range.upper);
  }

 private:
  RandomContrastOptions options_;
};

}  // namespace

RandomContrast::RandomContrast(const RandomContrastOptions& options)
    : Layer(std::make_shared<RandomContrastImpl>(options)) {}

}  // namespace tutti::keras::layers
