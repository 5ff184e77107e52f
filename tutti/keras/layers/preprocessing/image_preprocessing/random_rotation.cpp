#include "tutti/keras/layers/preprocessing/image_preprocessing/random_rotation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include <numbers>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomRotationImpl : public RandomImageLayerImpl {
 public:
  explicit RandomRotationImpl(const RandomRotationOptions& options)
      : RandomImageLayerImpl("RandomRotation", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, -1, 1);
  }

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const double middle_x = static_cast<double>(images.size(2) - 1) / 2;
    const double middle_y = static_cast<double>(images.size(1) - 1) / 2;
    const Tensor angle = draws.uniform(options_.factor) * (2 * std::numbers::pi);
    const Tensor cos = angle.cos(), sin = angle.sin();
    const Tensor transforms = at::stack({cos, -sin, middle_x - cos * middle_x + sin * middle_y,  //
                                         sin, cos, middle_y - sin * middle_x - cos * middle_y},
                                        1);
    return affine_transform(
        images, transforms,
        {.interpolation = options_.interpolation, .fill_mode = options_.fill_mode, .fill_value = options_.fill_value});
  }

 private:
  RandomRotationOptions options_;
};

}  // namespace

RandomRotation::RandomRotation(const RandomRotationOptions& options)
    : Layer(std::make_shared<RandomRotationImpl>(options)) {}

}  // namespace tutti::keras::layers
