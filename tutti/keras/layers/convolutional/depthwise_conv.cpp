#include "tutti/keras/layers/convolutional/depthwise_conv.h"

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"

namespace tutti::keras::layers {
namespace {

class DepthwiseConvImpl : public ConvolutionImpl {
 public:
  template <size_t Rank>
  explicit DepthwiseConvImpl(const DepthwiseConvOptions<Rank>& options)
      : ConvolutionImpl(str("DepthwiseConv", Rank, 'D'), options.name, convolution_of(options)),
        depth_multiplier_(options.depth_multiplier),
        kernel_options_{.initializer = options.depthwise_initializer,
                        .regularizer = options.depthwise_regularizer,
                        .constraint = options.depthwise_constraint} {
    check_positive("depth_multiplier", depth_multiplier_);
  }

 private:
  void add_kernels(int64_t channels) override {
    kernel_ = add_weight("kernel", kernel_shape(channels, depth_multiplier_), kernel_options_);
  }
  Tensor convolve(const Tensor& x) const override { return depthwise_convolve(x, kernel_, bias(), windows()); }
  int64_t num_filters(int64_t channels) const override {
    return channels == kUnknown ? kUnknown : channels * depth_multiplier_;
  }

  int64_t depth_multiplier_;
  WeightOptions kernel_options_;
  Tensor kernel_;
};

}  // namespace

template <size_t Rank>
DepthwiseConv<Rank>::DepthwiseConv(const DepthwiseConvOptions<Rank>& options)
    : Layer(std::make_shared<DepthwiseConvImpl>(options), options) {}

template class DepthwiseConv<1>;
template class DepthwiseConv<2>;

}  // namespace tutti::keras::layers
