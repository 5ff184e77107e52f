#include "tutti/keras/metrics/mean.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <numeric>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/metrics/mean_internal.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

std::vector<int64_t> axes_from(int64_t first_axis, const Tensor& x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.dim() - first_axis));
  std::iota(axes.begin(), axes.end(), first_axis);
  return axes;
}

Tensor mean_from_axis(const Tensor& x, int64_t first_axis) {
  return x.dim() <= first_axis ? x : x.mean(axes_from(first_axis, x));
}

Tensor sum_from_axis(const Tensor& x, int64_t first_axis) {
  return x.dim() <= first_axis ? x : x.sum(axes_from(first_axis, x));
}

struct Weighted {
  Tensor values;
  Tensor weight;  // as the values' leading extents
};

// Values of any dtype as float64, and weights that fit them.
Weighted aligned(const std::string& name, const Tensor& raw_values, const Tensor& sample_weight) {
  const auto [values, weight] = same_rank(raw_values.to(at::kDouble), sample_weight.to(at::kDouble));
  bool fits = weight.dim() <= values.dim();
  for (int64_t axis = 0; fits && axis < weight.dim(); ++axis)
    fits = weight.size(axis) == values.size(axis) || weight.size(axis) == 1;
  if (fits) return {values, weight.expand(values.sizes().slice(0, static_cast<size_t>(weight.dim())))};
  throw Error(ErrorCode::invalid_argument, str(name, ": weights of shape ", to_string(sample_weight.sizes()),
                                               " do not fit values of shape ", to_string(raw_values.sizes())));
}

Metric::Contribution contribution_of_values(const std::string& name) {
  return [name](const Tensor& values, const Tensor&, const Tensor& weight) {
    return mean_contribution(name, values, weight);
  };
}

}  // namespace

Tensor divide_no_nan(const Tensor& a, const Tensor& b) { return (a / b).masked_fill(b == 0, 0); }

Tensor mean_contribution(const std::string& name, const Tensor& values, const Tensor& sample_weight) {
  if (sample_weight.defined()) {
    const auto [all, weight] = aligned(name, values, sample_weight);
    const Tensor weighted = mean_from_axis(all, weight.dim()) * weight;
    return at::stack({mean_from_axis(weighted, 1).sum(), mean_from_axis(weight, 1).sum()});
  }
  const int64_t num_samples = values.dim() == 0 ? 1 : values.size(0);
  Tensor total = values.sum(at::kDouble);
  if (values.dim() > 1 && num_samples > 0) total = total / static_cast<double>(values.numel() / num_samples);
  return at::stack({total, at::full({}, num_samples, total.options())});
}

Tensor mean_result(const Tensor& state) { return divide_no_nan(state[0], state[1]); }

Mean::Mean(const MetricOptions& options)
    : Metric(options.name_or("mean"), {2}, contribution_of_values(options.name_or("mean")), mean_result) {
  tell_made_from({"Mean", options});
}

void Mean::update_state(const Tensor& values, const Tensor& sample_weight) const {
  add(contribution(values, {}, sample_weight));
}

Sum::Sum(const MetricOptions& options)
    : Metric(
          options.name_or("sum"), {1},
          [name = options.name_or("sum")](const Tensor& values, const Tensor&, const Tensor& sample_weight) {
            if (!sample_weight.defined()) return values.sum(at::kDouble).view({1});
            const auto [all, weight] = aligned(name, values, sample_weight);
            return (sum_from_axis(all, weight.dim()) * weight).sum().view({1});
          },
          [](const Tensor& state) { return state[0].clone(); }) {
  tell_made_from({"Sum", options});
}

void Sum::update_state(const Tensor& values, const Tensor& sample_weight) const {
  add(contribution(values, {}, sample_weight));
}

MeanMetricWrapper::MeanMetricWrapper(std::string name, Function function, Direction direction)
    : Metric(
          name, {2},
          [name, function = std::move(function)](const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
            return mean_contribution(name, function(y_true, y_pred), weight);
          },
          mean_result, direction) {}

MeanMetricWrapper::MeanMetricWrapper(std::string name, Contribution contribution, Result result, Direction direction)
    : Metric(std::move(name), {2}, std::move(contribution), std::move(result), direction) {}

}  // namespace tutti::keras::metrics
