#include "tutti/keras/layers/preprocessing/image_preprocessing/random_gaussian_blur.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/gaussian_blur_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomGaussianBlurImpl : public RandomImageLayerImpl {
 public:
  explicit RandomGaussianBlurImpl(const RandomGaussianBlurOptions& options)
      : RandomImageLayerImpl("RandomGaussianBlur", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    check_range("sigma", options_.sigma, 0, 1);
    check_value_range(options_.value_range);
    const auto [height, width] = options_.kernel_size;
    if (height < 1 || width < 1 || height % 2 == 0 || width % 2 == 0)
      refuse(tutti::str("kernel_size is ", height, " by ", width, "; both must be odd"));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    constexpr double kEpsilon = 1e-6;
    const Tensor probabilities = draws.uniform(options_.factor), numbers = draws.uniform({0, 1});
    const double sigma_x = draws.one(options_.sigma) + kEpsilon, sigma_y = draws.one(options_.sigma) + kEpsilon;
    const Tensor blurred = gaussian_blur(images, options_.kernel_size, {sigma_y, sigma_x});
    return where_drawn(numbers, probabilities, blurred, images)
        .clamp(options_.value_range.lower, options_.value_range.upper);
  }

 private:
  RandomGaussianBlurOptions options_;
};

}  // namespace

RandomGaussianBlur::RandomGaussianBlur(const RandomGaussianBlurOptions& options)
    : Layer(std::make_shared<RandomGaussianBlurImpl>(options)) {}

}  // namespace tutti::keras::layers
