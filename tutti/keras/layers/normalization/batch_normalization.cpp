#include "tutti/keras/layers/normalization/batch_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include "tutti/core/str.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/variable.h"
#include "tutti/keras/layers/axis.h"
#include "tutti/keras/layers/normalization/affine_internal.h"
#include "tutti/keras/layers/widened_internal.h"
#include "tutti/keras/weight_source.h"
#include "tutti/tensor/view.h"

namespace tutti::keras::layers {
namespace {

// Of each channel.
struct Moments {
  Tensor mean;
  Tensor variance;
  Tensor count;  // a scalar: over how many elements
};

Moments moments_of(const Tensor& rows) {
  const Tensor count = at::full({}, rows.size(0), rows.options());
  const Tensor mean = rows.sum(0) / count.clamp_min(1);
  return {.mean = mean, .variance = (rows - mean).square().sum(0) / count.clamp_min(1), .count = count};
}

// Of the rows of all replicas. What is exchanged are counts, means and variances: unlike sums of squares they lose no
// digits where the mean is large. A replica without rows weighs nothing.
// Source: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
Moments moments_of_all_replicas(const Tensor& rows) {
  const Moments own = moments_of(rows);
  const Tensor all =
      get_replica_context().all_gather(at::cat({own.count.view(1), own.mean, own.variance}).unsqueeze(0), 0);
  const int64_t num_channels = rows.size(1);
  const Tensor counts = all.narrow(1, 0, 1);
  const Tensor means = all.narrow(1, 1, num_channels);
  const Tensor variances = all.narrow(1, 1 + num_channels, num_channels);
  const Tensor count = counts.sum();
  const Tensor shares = counts / count.clamp_min(1);
  const Tensor mean = (shares * means).sum(0);
  return {.mean = mean, .variance = (shares * (variances + (means - mean).square())).sum(0), .count = count};
}

bool has_other_replicas() { return in_replica_function() && get_replica_context().num_replicas_in_sync() > 1; }

class BatchNormalizationImpl : public AffineImpl {
 public:
  explicit BatchNormalizationImpl(const BatchNormalizationOptions& options)
      : AffineImpl("BatchNormalization", options.name, affine_of(options)), options_(options) {
    if (!(options_.momentum >= 0 && options_.momentum <= 1) || !(options_.epsilon >= 0))
      refuse(str("momentum ", options_.momentum, ", epsilon ", options_.epsilon,
                 "; momentum must lie in [0, 1], epsilon may not be negative"));
  }

  void build(const Shape& input_shape) override {
    LayerImpl::build(input_shape);
    const int64_t channels = input_shape[static_cast<size_t>(axis_of(*this, options_.axis, input_shape))];
    if (channels == kUnknown)
      refuse(str("the input has shape ", to_string(input_shape), "; its extent at axis ", options_.axis,
                 " must be known when the layer is built"));
    add_gamma_and_beta({channels});
    const at::ScalarType dtype = variable_dtype(dtype_policy());
    moving_mean_ = add_moving("moving_mean", options_.moving_mean_initializer({channels}, dtype));
    moving_variance_ = add_moving("moving_variance", options_.moving_variance_initializer({channels}, dtype));
  }

  Tensor call(const Tensor& x, const CallOptions& options) const override {
    if (x.dim() < 2 || x.size(axis_of(*this, options_.axis, x.sizes())) != moving_mean_.size(0))
      refuse(str("the input has shape ", to_string(x.sizes()), "; the layer was built for an extent of ",
                 moving_mean_.size(0), " at axis ", options_.axis));
    const Tensor last = x.movedim(options_.axis, -1);
    const Tensor rows = last.flatten(0, -2);
    const bool training = options.training && trainable();
    const Tensor y = training && options.mask().defined() ? normalize_shown(rows, shown_rows(last, options.mask()))
                                                          : normalize(rows, training);
    return y.view(last.sizes()).movedim(-1, options_.axis);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.size() < 2)
      refuse(str("the input has shape ", to_string(input_shape), "; it must be [batch, ..., channels]"));
    (void)axis_of(*this, options_.axis, input_shape);
    return input_shape;
  }

 private:
  // Each replica follows its own shards; outside the first replica's statistics count, as in Keras.
  Tensor add_moving(const std::string& name, const Tensor& initial) {
    const auto make = [&] {
      return variable(initial, {.name = name,
                                .aggregation = VariableAggregation::only_first_replica,
                                .synchronization = VariableSynchronization::on_read});
    };
    if (source_ && source_ == WeightSource::current())
      return source_->weight(str(this->name(), '/', name), initial.sizes().vec(), /*trainable=*/false, make);
    Tensor value = make();
    module()->register_buffer(name, value);
    track({.name = name, .value = value, .trainable = false});
    return value;
  }

  // rows [N, channels]
  Tensor normalize(const Tensor& rows, bool training) const {
    if (training && options_.synchronized && has_other_replicas())
      return normalize_by(moments_of_all_replicas(widened(rows)), rows);
    if (training && rows.size(0) > 0) return normalize_by_own_moments(rows);
    return at::batch_norm(rows, gamma(), beta(), moving_mean_, moving_variance_, /*training=*/false, 0,
                          options_.epsilon, /*cudnn_enabled=*/true);
  }

  // By the moments of those rows that `shown` has.
  Tensor normalize_shown(const Tensor& rows, const Tensor& shown) const {
    const bool of_all = options_.synchronized && has_other_replicas();
    return normalize_by(of_all ? moments_of_all_replicas(widened(shown)) : moments_of(widened(shown)), rows);
  }

  // x [N, ..., channels], mask [N, ...]
  Tensor shown_rows(const Tensor& x, const Tensor& mask) const {
    if (mask.sizes() != x.sizes().slice(0, static_cast<size_t>(x.dim() - 1)))
      refuse(str("the mask has shape ", to_string(mask.sizes()), "; it must have the input's, ", to_string(x.sizes()),
                 ", without the channels"));
    return x.flatten(0, -2).index_select(0, mask.flatten().nonzero().squeeze(1));
  }

  Tensor normalize_by(const Moments& moments, const Tensor& rows) const {
    {
      const c10::NoGradGuard no_grad;
      follow(at::where(moments.count > 0, moments.mean, moving_mean_),
             at::where(moments.count > 0, moments.variance, moving_variance_));
    }
    const Tensor inverse = (moments.variance + options_.epsilon).rsqrt();
    const Tensor y = (widened(rows) - moments.mean) * (gamma() ? inverse * *gamma() : inverse);
    return (beta() ? y + *beta() : y).to(rows.scalar_type());
  }

  // LibTorch's running variance has Bessel's correction, n / (n - 1), which is taken off again.
  Tensor normalize_by_own_moments(const Tensor& rows) const {
    const Tensor mean = at::zeros_like(moving_mean_), variance = at::zeros_like(moving_variance_);
    const Tensor y = at::batch_norm(rows, gamma(), beta(), mean, variance, /*training=*/true, /*momentum=*/1,
                                    options_.epsilon, /*cudnn_enabled=*/true);
    const auto num_rows = static_cast<double>(rows.size(0));
    const c10::NoGradGuard no_grad;
    follow(mean, num_rows > 1 ? variance * ((num_rows - 1) / num_rows) : at::zeros_like(variance));
    return y;
  }

  void follow(const Tensor& mean, const Tensor& variance) const {
    moving_mean_.mul_(options_.momentum).add_(mean, 1 - options_.momentum);
    moving_variance_.mul_(options_.momentum).add_(variance, 1 - options_.momentum);
  }

  WeightSource* source_ = WeightSource::current();  // that was in force where the layer was made
  BatchNormalizationOptions options_;
  Tensor moving_mean_;
  Tensor moving_variance_;
};

}  // namespace

BatchNormalization::BatchNormalization(const BatchNormalizationOptions& options)
    : Layer(std::make_shared<BatchNormalizationImpl>(options), options) {}

}  // namespace tutti::keras::layers
