#include "tutti/keras/metrics/mean.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <numeric>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::metrics {
namespace {

Tensor mean_from_axis(const Tensor& x, int64_t first_axis) {
  if (x.dim() <= first_axis) return x;
  std::vector<int64_t> axes(static_cast<size_t>(x.dim() - first_axis));
  std::iota(axes.begin(), axes.end(), first_axis);
  return x.mean(axes);
}

struct Weighted {
  Tensor values;  // one per sample, times its weight
  Tensor weights;
};

// Keras's reduce_to_samplewise_values.
Weighted weigh(const std::string& name, const Tensor& values, const Tensor& sample_weight) {
  const auto [aligned, weight] = same_rank(values, sample_weight);
  if (weight.dim() > aligned.dim())
    throw Error(ErrorCode::invalid_argument, str(name, ": weights of shape ", to_string(sample_weight.sizes()),
                                                 " do not fit values of shape ", to_string(values.sizes())));
  const Tensor weighted = mean_from_axis(aligned, weight.dim()) * weight;
  return {mean_from_axis(weighted, 1), mean_from_axis(weight, 1)};
}

// [total, count]
Tensor mean_contribution(const std::string& name, const Tensor& raw_values, const Tensor& sample_weight) {
  const Tensor values = raw_values.is_floating_point() ? raw_values : raw_values.to(at::kFloat);
  if (sample_weight.defined()) {
    const auto [weighted, weights] = weigh(name, values, sample_weight.to(values.scalar_type()));
    return at::stack({weighted.sum(), weights.sum()});
  }
  const int64_t count = values.dim() == 0 ? 1 : values.size(0);
  return at::stack({mean_from_axis(values, 1).sum(), at::full({}, count, values.options())});
}

Tensor mean_result(const Tensor& state) {
  const Tensor total = state[0];
  const Tensor count = state[1];
  return at::where(count == 0, at::full({}, 0, state.options()), total / count);
}

Metric::Contribution values_and_weight(const std::string& name) {
  return [name](const Tensor& values, const Tensor&, const Tensor& weight) {
    return mean_contribution(name, values, weight);
  };
}

}  // namespace

Mean::Mean(const MetricOptions& options)
    : Metric(options.name_or("mean"), {2}, values_and_weight(options.name_or("mean")), mean_result) {}

void Mean::update_state(const Tensor& values, const Tensor& sample_weight) const {
  add(contribution(values, {}, sample_weight));
}

Sum::Sum(const MetricOptions& options)
    : Metric(
          options.name_or("sum"), {1},
          [name = options.name_or("sum")](const Tensor& values, const Tensor&, const Tensor& weight) {
            if (!weight.defined()) return values.sum().view({1});
            return weigh(name, values, weight).values.sum().view({1});
          },
          [](const Tensor& state) { return state[0].clone(); }) {}

void Sum::update_state(const Tensor& values, const Tensor& sample_weight) const {
  add(contribution(values, {}, sample_weight));
}

MeanMetricWrapper::MeanMetricWrapper(std::string name, Function function)
    : Metric(
          name, {2},
          [name, function = std::move(function)](const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
            return mean_contribution(name, function(y_true, y_pred), weight);
          },
          mean_result) {}

}  // namespace tutti::keras::metrics
