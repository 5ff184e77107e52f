#include "tutti/keras/layers/preprocessing/image_preprocessing/random_saturation.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomSaturationImpl : public RandomImageLayerImpl {
 public:
  explicit RandomSaturationImpl(const RandomSaturationOptions& options)
      : RandomImageLayerImpl("RandomSaturation", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    check_colors(images, {3});
    constexpr double kEpsilon = 1e-7;
    const Tensor drawn = draws.uniform(options_.factor);
    std::array<Tensor, 3> hsv = hsv_of(rescaled(images, options_.value_range, {0, 1}));
    hsv[1] = (hsv[1] * for_images(drawn / (1 - drawn + kEpsilon), images).squeeze(-1)).clamp(0, 1);
    return rescaled(image_of(hsv), {0, 1}, options_.value_range);
  }

 private:
  RandomSaturationOptions options_;
};

}  // namespace

RandomSaturation::RandomSaturation(const RandomSaturationOptions& options)
    : Layer(std::make_shared<RandomSaturationImpl>(options)) {}

}  // namespace tutti::keras::layers
