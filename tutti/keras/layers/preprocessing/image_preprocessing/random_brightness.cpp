#include "tutti/keras/layers/preprocessing/image_preprocessing/random_brightness.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomBrightnessImpl : public RandomImageLayerImpl {
 public:
  explicit RandomBrightnessImpl(const RandomBrightnessOptions& options)
      : RandomImageLayerImpl("RandomBrightness", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, -1, 1);
  }

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const auto [darkest, brightest] = options_.value_range;
    const Tensor change = draws.uniform(options_.factor) * (brightest - darkest);
    return (images + change.to(images.scalar_type()).reshape({-1, 1, 1, 1})).clamp(darkest, brightest);
  }

 private:
  RandomBrightnessOptions options_;
};

}  // namespace

RandomBrightness::RandomBrightness(const RandomBrightnessOptions& options)
    : Layer(std::make_shared<RandomBrightnessImpl>(options)) {}

}  // namespace tutti::keras::layers
