#include "tutti/keras/layers/normalization/group_normalization.h"

#include <ATen/ops/group_norm.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/axis.h"
#include "tutti/keras/layers/normalization/affine_internal.h"

namespace tutti::keras::layers {
namespace {

class GroupNormalizationImpl : public AffineImpl {
 public:
  explicit GroupNormalizationImpl(const GroupNormalizationOptions& options)
      : AffineImpl("GroupNormalization", options.name, affine_of(options)), options_(options) {
    if (options_.groups <= 0 && options_.groups != -1)
      refuse(str("groups is ", options_.groups, "; it must be positive, or -1 for a group for each channel"));
  }

  void build(const Shape& input_shape) override {
    LayerImpl::build(input_shape);
    channels_ = input_shape[static_cast<size_t>(axis_of(*this, options_.axis, input_shape))];
    if (channels_ <= 0 || channels_ % groups() != 0)
      refuse(str("the input has shape ", to_string(input_shape), "; its extent at axis ", options_.axis,
                 " must be known and divide into ", groups(), " groups"));
    add_gamma_and_beta({channels_});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const int64_t axis = axis_of(*this, options_.axis, x.sizes());
    if (x.dim() < 2 || x.size(axis) != channels_)
      refuse(str("the input has shape ", to_string(x.sizes()), "; the layer was built for an extent of ", channels_,
                 " at axis ", options_.axis));
    // The copy, where there is one, is needed: for channels-last images LibTorch 2.13 crashes in the gradient to the
    // weights if none to x is asked for.
    const Tensor first = x.movedim(axis, 1).contiguous();
    const Tensor y = at::group_norm(first, groups(), gamma(), beta(), options_.epsilon);
    return y.movedim(1, axis);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.size() < 2 || axis_of(*this, options_.axis, input_shape) == 0)
      refuse(str("the input has shape ", to_string(input_shape), "; axis ", options_.axis,
                 " must be one of its axes after the batch"));
    return input_shape;
  }

 private:
  int64_t groups() const { return options_.groups == -1 ? channels_ : options_.groups; }

  GroupNormalizationOptions options_;
  int64_t channels_ = 0;
};

}  // namespace

GroupNormalization::GroupNormalization(const GroupNormalizationOptions& options)
    : Layer(std::make_shared<GroupNormalizationImpl>(options), options) {}

}  // namespace tutti::keras::layers
