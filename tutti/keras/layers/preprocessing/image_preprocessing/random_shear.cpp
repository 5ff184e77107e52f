#include "tutti/keras/layers/preprocessing/image_preprocessing/random_shear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomShearImpl : public RandomImageLayerImpl {
 public:
  explicit RandomShearImpl(const RandomShearOptions& options)
      : RandomImageLayerImpl("RandomShear", options.name, options.data_format, options.seed), options_(options) {
    check_range("x_factor", options_.x_factor, -1, 1);
    check_range("y_factor", options_.y_factor, -1, 1);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const Tensor sign = draws.uniform({0, 1}).gt(0.5).to(at::kFloat) * -2 + 1;
    const Tensor y = draws.uniform(options_.y_factor) * sign, x = draws.uniform(options_.x_factor) * sign;
    const Tensor zero = at::zeros_like(x), one = at::ones_like(x);
    return affine_transform(
        images, at::stack({one, x, zero, y, one, zero}, 1),
        {.interpolation = options_.interpolation, .fill_mode = options_.fill_mode, .fill_value = options_.fill_value});
  }

 private:
  RandomShearOptions options_;
};

}  // namespace

RandomShear::RandomShear(const RandomShearOptions& options) : Layer(std::make_shared<RandomShearImpl>(options)) {}

}  // namespace tutti::keras::layers
