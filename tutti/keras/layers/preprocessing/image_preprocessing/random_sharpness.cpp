#include "tutti/keras/layers/preprocessing/image_preprocessing/random_sharpness.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/gaussian_blur_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomSharpnessImpl : public RandomImageLayerImpl {
 public:
  explicit RandomSharpnessImpl(const RandomSharpnessOptions& options)
      : RandomImageLayerImpl("RandomSharpness", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    // Weights of 1, but 5 in the middle.
    const Tensor kernel = at::ones({3, 3}, images.options().requires_grad(false));
    kernel[1][1] = 5;
    const Tensor smooth = weighted_around(images, kernel / 13);
    const Tensor sharpness = for_images(draws.uniform(options_.factor) * 2, images);
    return (images + (1 - sharpness) * (smooth - images)).clamp(options_.value_range.lower, options_.value_range.upper);
  }

 private:
  RandomSharpnessOptions options_;
};

}  // namespace

RandomSharpness::RandomSharpness(const RandomSharpnessOptions& options)
    : Layer(std::make_shared<RandomSharpnessImpl>(options)) {}

}  // namespace tutti::keras::layers
