#include "tutti/keras/layers/convolutional/separable_conv.h"

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"

namespace tutti::keras::layers {
namespace {

class SeparableConvImpl : public ConvolutionImpl {
 public:
  template <size_t Rank>
  explicit SeparableConvImpl(const SeparableConvOptions<Rank>& options)
      : ConvolutionImpl(str("SeparableConv", Rank, 'D'), options.name, convolution_of(options)),
        filters_(options.filters),
        depth_multiplier_(options.depth_multiplier),
        point_(make_windows(size_of_all<Rank>(1), size_of_all<Rank>(1), Padding::valid)),
        depthwise_options_{.initializer = options.depthwise_initializer,
                           .regularizer = options.depthwise_regularizer,
                           .constraint = options.depthwise_constraint},
        pointwise_options_{.initializer = options.pointwise_initializer,
                           .regularizer = options.pointwise_regularizer,
                           .constraint = options.pointwise_constraint} {
    check_positive("filters", filters_);
    check_positive("depth_multiplier", depth_multiplier_);
  }

 private:
  void add_kernels(int64_t channels) override {
    depthwise_kernel_ = add_weight("depthwise_kernel", kernel_shape(channels, depth_multiplier_), depthwise_options_);
    Shape pointwise_shape(spatial_rank(), 1);
    pointwise_shape.insert(pointwise_shape.end(), {channels * depth_multiplier_, filters_});
    pointwise_kernel_ = add_weight("pointwise_kernel", pointwise_shape, pointwise_options_);
  }
  Tensor convolve(const Tensor& x) const override {
    const Tensor depthwise = depthwise_convolve(x, depthwise_kernel_, {}, windows());
    return layers::convolve(depthwise, pointwise_kernel_, bias(), point_, /*groups=*/1);
  }
  int64_t num_filters(int64_t) const override { return filters_; }

  int64_t filters_;
  int64_t depth_multiplier_;
  Windows point_;
  WeightOptions depthwise_options_;
  WeightOptions pointwise_options_;
  Tensor depthwise_kernel_;
  Tensor pointwise_kernel_;
};

}  // namespace

template <size_t Rank>
SeparableConv<Rank>::SeparableConv(const SeparableConvOptions<Rank>& options)
    : Layer(std::make_shared<SeparableConvImpl>(options), options) {}

template class SeparableConv<1>;
template class SeparableConv<2>;

}  // namespace tutti::keras::layers
