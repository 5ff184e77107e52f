#include "tutti/keras/layers/preprocessing/image_preprocessing/random_invert.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomInvertImpl : public RandomImageLayerImpl {
 public:
  explicit RandomInvertImpl(const RandomInvertOptions& options)
      : RandomImageLayerImpl("RandomInvert", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const Tensor probabilities = draws.uniform(options_.factor);
    return where_drawn(draws.uniform({0, 1}), probabilities, options_.value_range.upper - images, images);
  }

 private:
  RandomInvertOptions options_;
};

}  // namespace

RandomInvert::RandomInvert(const RandomInvertOptions& options) : Layer(std::make_shared<RandomInvertImpl>(options)) {}

}  // namespace tutti::keras::layers
