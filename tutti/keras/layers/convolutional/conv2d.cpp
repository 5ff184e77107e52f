#include "tutti/keras/layers/convolutional/conv2d.h"

#include <ATen/ops/conv2d.h>

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class Conv2DImpl : public LayerImpl {
 public:
  explicit Conv2DImpl(const Conv2DOptions& options) : LayerImpl("Conv2D", options.name), options_(options) {
    const auto positive = [](const Size2D& size) { return std::ranges::min(size) > 0; };
    if (options_.filters <= 0 || !positive(options_.kernel_size) || !positive(options_.strides) ||
        !positive(options_.dilation_rate) || options_.groups <= 0)
      refuse(str("filters ", options_.filters, ", kernel_size ", str_list(options_.kernel_size), ", strides ",
                 str_list(options_.strides), ", dilation_rate ", str_list(options_.dilation_rate), ", groups ",
                 options_.groups, "; all must be positive"));
    if (options_.filters % options_.groups != 0)
      refuse(str(options_.filters, " filters do not divide into ", options_.groups, " groups"));
  }

  void build(const Shape& input_shape) override {
    LayerImpl::build(input_shape);
    channels_ = input_shape.back();
    if (channels_ <= 0 || channels_ % options_.groups != 0)
      refuse(str("the input has ", channels_, " channels, which do not divide into ", options_.groups, " groups"));
    const auto [height, width] = options_.kernel_size;
    kernel_ = add_weight("kernel", {height, width, channels_ / options_.groups, options_.filters},
                         {.initializer = options_.kernel_initializer, .regularizer = options_.kernel_regularizer});
    if (options_.use_bias)
      bias_ = add_weight("bias", {options_.filters},
                         {.initializer = options_.bias_initializer, .regularizer = options_.bias_regularizer});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (x.dim() != 4 || x.size(3) != channels_)
      refuse(str("the input has shape ", to_string(x.sizes()), "; the layer was built for [batch, height, width, ",
                 channels_, "]"));
    const auto [images, padding] = pad_images(x, windows(), 0);
    const Tensor output = at::conv2d(images, kernel_.permute({3, 2, 0, 1}), bias(), options_.strides, padding,
                                     options_.dilation_rate, options_.groups);
    return options_.activation(output.permute({0, 2, 3, 1}));
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    Shape shape = windowed_shape(*this, input_shape, windows());
    shape.back() = options_.filters;
    return shape;
  }

 private:
  Windows2D windows() const {
    const auto window = [this](size_t axis) {
      return Window{options_.kernel_size[axis], options_.strides[axis], options_.dilation_rate[axis]};
    };
    return {.rows = window(0), .columns = window(1), .padding = options_.padding};
  }
  std::optional<Tensor> bias() const { return options_.use_bias ? std::optional(bias_) : std::nullopt; }

  Conv2DOptions options_;
  int64_t channels_ = 0;
  Tensor kernel_;
  Tensor bias_;
};

}  // namespace

Conv2D::Conv2D(const Conv2DOptions& options) : Layer(std::make_shared<Conv2DImpl>(options)) {}

}  // namespace tutti::keras::layers
