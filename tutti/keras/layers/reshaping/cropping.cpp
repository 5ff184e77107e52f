#include "tutti/keras/layers/reshaping/cropping.h"

#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "tutti/core/str.h"
#include "tutti/keras/layers/formatted_layer_internal.h"

namespace tutti::keras::layers {
namespace {

using MarginsList = c10::SmallVector<Margins, 3>;

void check_margins(const LayerImpl& layer, const char* option, const MarginsList& margins) {
  for (const auto [front, back] : margins)
    if (std::min(front, back) < 0)
      layer.refuse(str(option, " is ", front, " in front and ", back, " behind; neither may be negative"));
}

class CroppingImpl : public FormattedImpl {
 public:
  template <size_t Rank>
  explicit CroppingImpl(const CroppingOptions<Rank>& options)
      : FormattedImpl(str("Cropping", Rank, 'D'), options.name, options.data_format, Rank),
        cropping_(options.cropping.begin(), options.cropping.end()) {
    check_margins(*this, "cropping", cropping_);
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const Shape shape = compute_output_shape(x.sizes().vec());
    Tensor inside = x;
    for (size_t i = 0; i < cropping_.size(); ++i)
      inside = inside.narrow(static_cast<int64_t>(i) + 1, cropping_[i].front, shape[i + 1]);
    return inside;
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    check_images(*this, input_shape, cropping_.size());
    Shape shape = input_shape;
    for (size_t i = 0; i < cropping_.size(); ++i) {
      if (shape[i + 1] == kUnknown) continue;
      shape[i + 1] -= cropping_[i].front + cropping_[i].back;
      if (shape[i + 1] <= 0)
        refuse(str("the input has shape ", to_string(input_shape), "; cropping ", cropping_[i].front, " and ",
                   cropping_[i].back, " leaves nothing of axis ", i + 1));
    }
    return shape;
  }

 private:
  MarginsList cropping_;
};

class ZeroPaddingImpl : public FormattedImpl {
 public:
  template <size_t Rank>
  explicit ZeroPaddingImpl(const ZeroPaddingOptions<Rank>& options)
      : FormattedImpl(str("ZeroPadding", Rank, 'D'), options.name, options.data_format, Rank),
        padding_(options.padding.begin(), options.padding.end()) {
    check_margins(*this, "padding", padding_);
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    check_images(*this, x.sizes(), padding_.size());
    c10::SmallVector<int64_t, 8> pad{0, 0};  // the last axis first
    for (size_t i = padding_.size(); i-- > 0;) pad.append({padding_[i].front, padding_[i].back});
    return at::constant_pad_nd(x, pad, 0);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    check_images(*this, input_shape, padding_.size());
    Shape shape = input_shape;
    for (size_t i = 0; i < padding_.size(); ++i)
      if (shape[i + 1] != kUnknown) shape[i + 1] += padding_[i].front + padding_[i].back;
    return shape;
  }

 private:
  MarginsList padding_;
};

}  // namespace

template <size_t Rank>
Cropping<Rank>::Cropping(const CroppingOptions<Rank>& options)
    : Layer(std::make_shared<CroppingImpl>(options), options) {}

template <size_t Rank>
ZeroPadding<Rank>::ZeroPadding(const ZeroPaddingOptions<Rank>& options)
    : Layer(std::make_shared<ZeroPaddingImpl>(options), options) {}

template class Cropping<1>;
template class Cropping<2>;
template class Cropping<3>;
template class ZeroPadding<1>;
template class ZeroPadding<2>;
template class ZeroPadding<3>;

}  // namespace tutti::keras::layers
