#include "tutti/keras/layers/preprocessing/image_preprocessing/random_erasing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/rectangles_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomErasingImpl : public RandomImageLayerImpl {
 public:
  explicit RandomErasingImpl(const RandomErasingOptions& options)
      : RandomImageLayerImpl("RandomErasing", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_range("scale", options_.scale, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const int64_t height = images.size(1), width = images.size(2), channels = images.size(3);
    const Tensor sides = draws.uniform(options_.scale, {2}).sqrt();
    const Rectangles rectangles{.columns = draw_span(draws, width, sides.select(1, 0)),
                                .rows = draw_span(draws, height, sides.select(1, 1))};
    const Tensor probabilities = draws.uniform(options_.factor), numbers = draws.uniform({0, 1});
    const Tensor filled = at::where(inside(rectangles, height, width), fill(images, channels, draws), images);
    return where_drawn(numbers, probabilities, filled, images);
  }

 private:
  Tensor fill(const Tensor& images, int64_t channels, RandomDraws& draws) const {
    const auto& [darkest, brightest] = options_.value_range;
    const auto count = static_cast<int64_t>(options_.fill_value.size());
    if (count > 1 && count != channels)
      refuse(tutti::str("fill_value has ", count, " numbers, the images ", channels,
                        " channels; give one for each channel, or a single one"));
    const Tensor values = count > 0 ? at::tensor(options_.fill_value, images.options().requires_grad(false))
                                    : draws.normal(images.sizes().slice(1)) * brightest;
    return values.to(images.scalar_type()).clamp(darkest, brightest);
  }

  RandomErasingOptions options_;
};

}  // namespace

RandomErasing::RandomErasing(const RandomErasingOptions& options)
    : Layer(std::make_shared<RandomErasingImpl>(options)) {}

}  // namespace tutti::keras::layers
