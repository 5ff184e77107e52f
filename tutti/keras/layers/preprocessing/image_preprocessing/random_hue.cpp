#include "tutti/keras/layers/preprocessing/image_preprocessing/random_hue.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomHueImpl : public RandomImageLayerImpl {
 public:
  explicit RandomHueImpl(const RandomHueOptions& options)
      : RandomImageLayerImpl("RandomHue", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    check_colors(images, {3});
    const Tensor sign = draws.uniform({0, 1}).gt(0.5).to(at::kFloat) * -2 + 1;
    const Tensor turn = sign * draws.uniform(options_.factor) * 0.5;
    std::array<Tensor, 3> hsv = hsv_of(rescaled(images, options_.value_range, {0, 1}));
    hsv[0] = hsv[0] + for_images(turn, images).squeeze(-1);
    return rescaled(image_of(hsv).clamp(0, 1), {0, 1}, options_.value_range);
  }

 private:
  RandomHueOptions options_;
};

}  // namespace

RandomHue::RandomHue(const RandomHueOptions& options) : Layer(std::make_shared<RandomHueImpl>(options)) {}

}  // namespace tutti::keras::layers
