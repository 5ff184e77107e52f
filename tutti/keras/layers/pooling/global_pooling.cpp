#include "tutti/keras/layers/pooling/global_pooling.h"

#include <ATen/TensorOperators.h>

#include <numeric>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/formatted_layer_internal.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {
namespace {

using Reduction = Tensor (*)(const Tensor& x, const Tensor& mask, at::IntArrayRef axes, bool keepdims);

class GlobalPoolingImpl : public FormattedImpl {
 public:
  GlobalPoolingImpl(const char* kind, size_t spatial_rank, Reduction reduction, const GlobalPoolingOptions& options)
      : FormattedImpl(str(kind, spatial_rank, 'D'), options.name, options.data_format, spatial_rank),
        axes_(spatial_rank),
        keepdims_(options.keepdims),
        reduction_(reduction) {
    std::iota(axes_.begin(), axes_.end(), 1);
  }

  Tensor call(const Tensor& x, const CallOptions& options) const override {
    check_images(*this, x.sizes(), axes_.size());
    return reduction_(x, options.mask(), axes_, keepdims_);
  }

  InputCast input_cast() const override { return InputCast::numbers; }
  Shape compute_output_shape(const Shape& input_shape) const override {
    check_images(*this, input_shape, axes_.size());
    Shape shape{input_shape.front()};
    if (keepdims_) shape.resize(axes_.size() + 1, 1);
    shape.push_back(input_shape.back());
    return shape;
  }

 private:
  std::vector<int64_t> axes_;
  bool keepdims_;
  Reduction reduction_;
};

Tensor largest_of_all(const Tensor& x, const Tensor& /*mask*/, at::IntArrayRef axes, bool keepdims) {
  return x.amax(axes, keepdims);
}

// Of a sequence, over the steps that the mask shows; 0 where it shows none.
Tensor mean(const Tensor& x, const Tensor& mask, at::IntArrayRef axes, bool keepdims) {
  if (!mask.defined() || axes.size() != 1) return x.mean(axes, keepdims);
  const Tensor shown = mask.to(x.scalar_type()).unsqueeze(-1);
  return (x * shown).sum(axes, keepdims) / shown.sum(axes, keepdims).clamp_min(1);
}

}  // namespace

template <size_t Rank>
GlobalMaxPooling<Rank>::GlobalMaxPooling(const GlobalPoolingOptions& options)
    : Layer(std::make_shared<GlobalPoolingImpl>("GlobalMaxPooling", Rank, largest_of_all, options), options) {}

template <size_t Rank>
GlobalAveragePooling<Rank>::GlobalAveragePooling(const GlobalPoolingOptions& options)
    : Layer(std::make_shared<GlobalPoolingImpl>("GlobalAveragePooling", Rank, mean, options), options) {}

template class GlobalMaxPooling<1>;
template class GlobalMaxPooling<2>;
template class GlobalMaxPooling<3>;
template class GlobalAveragePooling<1>;
template class GlobalAveragePooling<2>;
template class GlobalAveragePooling<3>;

}  // namespace tutti::keras::layers
