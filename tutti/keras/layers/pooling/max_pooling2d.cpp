#include "tutti/keras/layers/pooling/max_pooling2d.h"

#include <ATen/ops/max_pool2d.h>

#include <algorithm>
#include <limits>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class MaxPooling2DImpl : public LayerImpl {
 public:
  explicit MaxPooling2DImpl(const MaxPooling2DOptions& options)
      : LayerImpl("MaxPooling2D", options.name), options_(options) {
    if (options_.strides == Size2D{}) options_.strides = options_.pool_size;
    if (std::ranges::min(options_.pool_size) <= 0 || std::ranges::min(options_.strides) <= 0)
      refuse(str("pool_size ", str_list(options_.pool_size), ", strides ", str_list(options_.strides),
                 "; both must be positive"));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (x.dim() != 4)
      refuse(str("the input has shape ", to_string(x.sizes()), "; it must be [batch, height, width, channels]"));
    const auto [images, padding] = pad_images(x, windows(), -std::numeric_limits<double>::infinity());
    return at::max_pool2d(images, options_.pool_size, options_.strides, padding).permute({0, 2, 3, 1});
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    return windowed_shape(*this, input_shape, windows());
  }

 private:
  Windows2D windows() const {
    const auto window = [this](size_t axis) {
      return Window{.size = options_.pool_size[axis], .stride = options_.strides[axis]};
    };
    return {.rows = window(0), .columns = window(1), .padding = options_.padding};
  }

  MaxPooling2DOptions options_;
};

}  // namespace

MaxPooling2D::MaxPooling2D(const MaxPooling2DOptions& options) : Layer(std::make_shared<MaxPooling2DImpl>(options)) {}

}  // namespace tutti::keras::layers
