#include "tutti/keras/layers/regularization/activity_regularization.h"

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class ActivityRegularizationImpl : public LayerImpl {
 public:
  explicit ActivityRegularizationImpl(const ActivityRegularizationOptions& options)
      : LayerImpl("ActivityRegularization", options.name) {
    if (!(options.l1 >= 0 && options.l2 >= 0))
      refuse(str("l1 ", options.l1, ", l2 ", options.l2, "; neither may be negative"));
    regularize_activity(regularizers::L1L2({.l1 = options.l1, .l2 = options.l2}));
  }

  Tensor call(const Tensor& x, const CallOptions&) const override { return x; }
  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }
  bool supports_masking() const override { return true; }
};

}  // namespace

ActivityRegularization::ActivityRegularization(const ActivityRegularizationOptions& options)
    : Layer(std::make_shared<ActivityRegularizationImpl>(options), options) {}

}  // namespace tutti::keras::layers
