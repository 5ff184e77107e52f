#include "tutti/keras/layers/preprocessing/image_preprocessing/random_zoom.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomZoomImpl : public RandomImageLayerImpl {
 public:
  explicit RandomZoomImpl(const RandomZoomOptions& options)
      : RandomImageLayerImpl("RandomZoom", options.name, options.data_format, options.seed), options_(options) {
    check_range("height_factor", options_.height_factor, -1, 1);
    if (options_.width_factor) check_range("width_factor", *options_.width_factor, -1, 1);
  }

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const double middle_x = static_cast<double>(images.size(2) - 1) / 2;
    const double middle_y = static_cast<double>(images.size(1) - 1) / 2;
    const Tensor zoom_y = draws.uniform(options_.height_factor) + 1;
    const Tensor zoom_x = options_.width_factor ? draws.uniform(*options_.width_factor) + 1 : zoom_y;
    const Tensor zero = at::zeros_like(zoom_x);
    const Tensor transforms =
        at::stack({zoom_x, zero, (1 - zoom_x) * middle_x, zero, zoom_y, (1 - zoom_y) * middle_y}, 1);
    return affine_transform(
        images, transforms,
        {.interpolation = options_.interpolation, .fill_mode = options_.fill_mode, .fill_value = options_.fill_value});
  }

 private:
  RandomZoomOptions options_;
};

}  // namespace

RandomZoom::RandomZoom(const RandomZoomOptions& options) : Layer(std::make_shared<RandomZoomImpl>(options)) {}

}  // namespace tutti::keras::layers
