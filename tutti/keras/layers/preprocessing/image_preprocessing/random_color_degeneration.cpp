#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_degeneration.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomColorDegenerationImpl : public RandomImageLayerImpl {
 public:
  explicit RandomColorDegenerationImpl(const RandomColorDegenerationOptions& options)
      : RandomImageLayerImpl("RandomColorDegeneration", options.name, options.data_format, options.seed),
        options_(options) {
    check_range("factor", options_.factor, -1, 1);
    check_value_range(options_.value_range);
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    check_colors(images, {1, 3});
    return (images + for_images(draws.uniform(options_.factor), images) * (grey_of(images) - images))
        .clamp(options_.value_range.lower, options_.value_range.upper);
  }

 private:
  RandomColorDegenerationOptions options_;
};

}  // namespace

RandomColorDegeneration::RandomColorDegeneration(const RandomColorDegenerationOptions& options)
    : Layer(std::make_shared<RandomColorDegenerationImpl>(options)) {}

}  // namespace tutti::keras::layers
