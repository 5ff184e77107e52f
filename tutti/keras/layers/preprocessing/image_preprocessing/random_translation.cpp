#include "tutti/keras/layers/preprocessing/image_preprocessing/random_translation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomTranslationImpl : public RandomImageLayerImpl {
 public:
  explicit RandomTranslationImpl(const RandomTranslationOptions& options)
      : RandomImageLayerImpl("RandomTranslation", options.name, options.data_format, options.seed), options_(options) {
    check_range("height_factor", options_.height_factor, -1, 1);
    check_range("width_factor", options_.width_factor, -1, 1);
  }

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const Tensor down = draws.uniform(options_.height_factor) * images.size(1);
    const Tensor right = draws.uniform(options_.width_factor) * images.size(2);
    const Tensor zero = at::zeros_like(down), one = at::ones_like(down);
    return affine_transform(
        images, at::stack({one, zero, -right, zero, one, -down}, 1),
        {.interpolation = options_.interpolation, .fill_mode = options_.fill_mode, .fill_value = options_.fill_value});
  }

 private:
  RandomTranslationOptions options_;
};

}  // namespace

RandomTranslation::RandomTranslation(const RandomTranslationOptions& options)
    : Layer(std::make_shared<RandomTranslationImpl>(options)) {}

}  // namespace tutti::keras::layers
