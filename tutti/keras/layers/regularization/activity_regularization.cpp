#include "tutti/keras/layers/regularization/activity_regularization.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class ActivityRegularizationImpl : public LayerImpl {
 public:
  explicit ActivityRegularizationImpl(const ActivityRegularizationOptions& options)
      : LayerImpl("ActivityRegularization", options.name), penalty_({.l1 = options.l1, .l2 = options.l2}) {
    if (!(options.l1 >= 0 && options.l2 >= 0))
      refuse(str("l1 ", options.l1, ", l2 ", options.l2, "; neither may be negative"));
  }

  Tensor call(const Tensor& x, const CallOptions& options) const override {
    const auto num_samples = static_cast<double>(x.dim() > 0 ? x.size(0) : 1);
    add_loss(options, ReduceOp::mean, penalty_(x) / std::max(1.0, num_samples));
    return x;
  }

  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }
  bool supports_masking() const override { return true; }

 private:
  regularizers::L1L2 penalty_;
};

}  // namespace

ActivityRegularization::ActivityRegularization(const ActivityRegularizationOptions& options)
    : Layer(std::make_shared<ActivityRegularizationImpl>(options)) {}

}  // namespace tutti::keras::layers
