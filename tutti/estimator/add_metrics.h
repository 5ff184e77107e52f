#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "tutti/estimator/estimator.h"

namespace tutti::estimator {

using EvalMetrics = std::map<std::string, EvalMetric>;

// Metrics of a batch, by their names: f(labels, predictions) or f(labels, predictions, features), whose labels and
// features are Tensors, Strings, data::Columns or Input, and whose predictions are data::Columns. TF: metric_fn.
class MetricFn {
 public:
  template <class F>
  requires(!std::same_as<std::decay_t<F>, MetricFn>) MetricFn(F f)
      : call_([f = std::move(f)](const Input& labels, const data::Columns& predictions,
                                 const Input& features) -> EvalMetrics {
          if constexpr (std::is_invocable_v<const F&, const Input&, const data::Columns&, const Input&>)
            return f(labels, predictions, features);
          else
            return f(labels, predictions);
        }) {}

  EvalMetrics operator()(const Input& labels, const data::Columns& predictions, const Input& features) const {
    return call_(labels, predictions, features);
  }

 private:
  std::function<EvalMetrics(const Input& labels, const data::Columns& predictions, const Input& features)> call_;
};

// The same model, in the same folder, whose evaluations have these metrics too; one takes the place of the model's of
// that name. TF: tf.estimator.add_metrics.
Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn);

}  // namespace tutti::estimator
