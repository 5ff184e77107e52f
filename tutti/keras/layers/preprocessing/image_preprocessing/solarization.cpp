#include "tutti/keras/layers/preprocessing/image_preprocessing/solarization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class SolarizationImpl : public RandomImageLayerImpl {
 public:
  explicit SolarizationImpl(const SolarizationOptions& options)
      : RandomImageLayerImpl("Solarization", options.name, options.data_format, options.seed), options_(options) {
    check_range("addition_factor", options_.addition_factor, 0, 1);
    check_range("threshold_factor", options_.threshold_factor, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const auto bytes = [&](const FractionRange& fractions) {
      return for_images(draws.uniform(fractions) * 255, images);
    };
    const Tensor additions = bytes(options_.addition_factor), thresholds = bytes(options_.threshold_factor);
    const Tensor x = (rescaled(images, options_.value_range, kBytes) + additions).clamp(0, 255);
    return rescaled(at::where(x < thresholds, x, 255 - x), kBytes, options_.value_range);
  }

 private:
  SolarizationOptions options_;
};

}  // namespace

Solarization::Solarization(const SolarizationOptions& options) : Layer(std::make_shared<SolarizationImpl>(options)) {}

}  // namespace tutti::keras::layers
