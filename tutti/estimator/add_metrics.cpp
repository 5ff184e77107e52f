#include "tutti/estimator/add_metrics.h"

#include "tutti/core/error.h"
#include "tutti/estimator/estimator_state_internal.h"

namespace tutti::estimator {

Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn) {
  const auto state = estimator.state_;
  const auto with_metrics = [state, metric_fn = std::move(metric_fn)](const Input& features, const Input& labels,
                                                                      ModeKeys mode, const Params& params,
                                                                      const RunConfig& config) {
    if (mode != ModeKeys::predict && !labels.empty() && !state->model_fn.takes_labels())
      throw Error(ErrorCode::invalid_argument, "model_fn: it takes no labels, and input_fn gives some");
    EstimatorSpec spec = state->model_fn(features, labels, mode, params, config);
    if (mode != ModeKeys::eval) return spec;
    EstimatorSpecOptions options = *spec;
    for (auto& [name, metric] : metric_fn(labels, options.predictions, features))
      options.eval_metric_ops.insert_or_assign(name, metric);
    return EstimatorSpec(std::move(options));
  };
  return Estimator(with_metrics,
                   {.config = state->config.replace([&](RunConfigOptions& own) { own.model_dir = state->model_dir; }),
                    .params = state->params,
                    .warm_start_from = state->warm_start});
}

}  // namespace tutti::estimator
