#include "tutti/keras/layers/convolutional/conv.h"

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"

namespace tutti::keras::layers {
namespace {

class ConvImpl : public ConvolutionImpl {
 public:
  template <size_t Rank>
  explicit ConvImpl(const ConvOptions<Rank>& options)
      : ConvolutionImpl(str("Conv", Rank, 'D'), options.name, convolution_of(options), /*may_be_causal=*/Rank == 1),
        filters_(options.filters),
        groups_(options.groups),
        kernel_options_{.initializer = options.kernel_initializer,
                        .regularizer = options.kernel_regularizer,
                        .constraint = options.kernel_constraint} {
    check_positive("filters", filters_);
    check_positive("groups", groups_);
    if (filters_ % groups_ != 0) refuse(str(filters_, " filters do not divide into ", groups_, " groups"));
  }

 private:
  void add_kernels(int64_t channels) override {
    if (channels % groups_ != 0)
      refuse(str("the input has ", channels, " channels, which do not divide into ", groups_, " groups"));
    kernel_ = add_weight("kernel", kernel_shape(channels / groups_, filters_), kernel_options_);
  }
  Tensor convolve(const Tensor& x) const override { return layers::convolve(x, kernel_, bias(), windows(), groups_); }
  int64_t num_filters(int64_t) const override { return filters_; }

  int64_t filters_;
  int64_t groups_;
  WeightOptions kernel_options_;
  Tensor kernel_;
};

}  // namespace

template <size_t Rank>
Conv<Rank>::Conv(const ConvOptions<Rank>& options) : Layer(std::make_shared<ConvImpl>(options), options) {}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;

}  // namespace tutti::keras::layers
