#include "tutti/keras/layers/preprocessing/image_preprocessing/random_grayscale.h"

#include <ATen/ops/full_like.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomGrayscaleImpl : public RandomImageLayerImpl {
 public:
  explicit RandomGrayscaleImpl(const RandomGrayscaleOptions& options)
      : RandomImageLayerImpl("RandomGrayscale", options.name, options.data_format, options.seed), options_(options) {
    if (!(options_.factor >= 0 && options_.factor <= 1))
      refuse(tutti::str("factor is ", options_.factor, "; it must lie in [0, 1]"));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    check_colors(images, {1, 3});
    const Tensor numbers = draws.uniform({0, 1});
    return where_drawn(numbers, at::full_like(numbers, options_.factor), grey_of(images), images);
  }

 private:
  RandomGrayscaleOptions options_;
};

}  // namespace

RandomGrayscale::RandomGrayscale(const RandomGrayscaleOptions& options)
    : Layer(std::make_shared<RandomGrayscaleImpl>(options)) {}

}  // namespace tutti::keras::layers
