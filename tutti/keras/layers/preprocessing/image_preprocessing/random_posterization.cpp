#include "tutti/keras/layers/preprocessing/image_preprocessing/random_posterization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp2.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomPosterizationImpl : public RandomImageLayerImpl {
 public:
  explicit RandomPosterizationImpl(const RandomPosterizationOptions& options)
      : RandomImageLayerImpl("RandomPosterization", options.name, options.data_format, options.seed),
        options_(options) {
    check_value_range(options_.value_range);
    const auto [lower, upper] = options_.factor;
    if (lower < 1 || upper > 8 || lower > upper)
      refuse(tutti::str("factor is {", lower, ", ", upper, "}; {l, u} with 1 <= l <= u <= 8 is required"));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const auto [lower, upper] = options_.factor;
    const auto last = static_cast<double>(std::max(lower, upper - 1));
    const Tensor bits = draws.uniform({static_cast<double>(lower), last + 1}).floor().clamp_max(last);
    const Tensor step = for_images(at::exp2(8 - bits), images);
    const Tensor bytes = rescaled(images, options_.value_range, kBytes).clamp(0, 255).floor();
    return rescaled((bytes / step).floor() * step, kBytes, options_.value_range);
  }

 private:
  RandomPosterizationOptions options_;
};

}  // namespace

RandomPosterization::RandomPosterization(const RandomPosterizationOptions& options)
    : Layer(std::make_shared<RandomPosterizationImpl>(options)) {}

}  // namespace tutti::keras::layers
