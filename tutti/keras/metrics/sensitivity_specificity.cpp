#include "tutti/keras/metrics/sensitivity_specificity.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/metrics/confusion_internal.h"

namespace tutti::keras::metrics {
namespace {

using Rate = Tensor (Confusion::*)() const;

// What is asked of which rate, for the best of another.
struct Demand {
  const char* rate_name;
  Rate rate;
  double at_least;
  Rate best;
};

template <class Options>
Metric best_under(const Options& options, const Demand& demand) {
  if (!(demand.at_least >= 0 && demand.at_least <= 1))
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": ", demand.rate_name, " is ", demand.at_least, "; it must lie in [0, 1]"));
  const Thresholds thresholds = Thresholds::even(options.name, options.num_thresholds);
  const ConfusionOptions counted{.name = options.name, .class_id = options.class_id};
  return Metric(
      options.name, {2, 1, thresholds.size() + 1},
      [counted, thresholds](const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) {
        return confusion_contribution(counted, thresholds, y_true, y_pred, sample_weight);
      },
      [thresholds, demand](const Tensor& state) {
        const Confusion counts = confusion(thresholds, state);
        return (counts.*demand.best)().masked_fill((counts.*demand.rate)() < demand.at_least, 0).max();
      },
      Direction::up);
}

}  // namespace

SensitivityAtSpecificity::SensitivityAtSpecificity(const SensitivityAtSpecificityOptions& options)
    : Metric(best_under(options, {"specificity", &Confusion::specificity, options.specificity, &Confusion::recall})) {
  tell_made_from({"SensitivityAtSpecificity", options});
}

SpecificityAtSensitivity::SpecificityAtSensitivity(const SpecificityAtSensitivityOptions& options)
    : Metric(best_under(options, {"sensitivity", &Confusion::recall, options.sensitivity, &Confusion::specificity})) {
  tell_made_from({"SpecificityAtSensitivity", options});
}

PrecisionAtRecall::PrecisionAtRecall(const PrecisionAtRecallOptions& options)
    : Metric(best_under(options, {"recall", &Confusion::recall, options.recall, &Confusion::precision})) {
  tell_made_from({"PrecisionAtRecall", options});
}

RecallAtPrecision::RecallAtPrecision(const RecallAtPrecisionOptions& options)
    : Metric(best_under(options, {"precision", &Confusion::precision, options.precision, &Confusion::recall})) {
  tell_made_from({"RecallAtPrecision", options});
}

}  // namespace tutti::keras::metrics
