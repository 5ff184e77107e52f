#include "tutti/keras/metrics/hinge.h"

#include "tutti/keras/losses/hinge.h"

namespace tutti::keras::metrics {

Hinge::Hinge(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("hinge"), losses::Hinge({.reduction = Reduction::none}), Direction::down) {
  tell_made_from({"Hinge", options});
}

SquaredHinge::SquaredHinge(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("squared_hinge"), losses::SquaredHinge({.reduction = Reduction::none}),
                        Direction::down) {
  tell_made_from({"SquaredHinge", options});
}

CategoricalHinge::CategoricalHinge(const MetricOptions& options)
    : MeanMetricWrapper(options.name_or("categorical_hinge"), losses::CategoricalHinge({.reduction = Reduction::none}),
                        Direction::down) {
  tell_made_from({"CategoricalHinge", options});
}

}  // namespace tutti::keras::metrics
