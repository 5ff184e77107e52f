#include "tutti/keras/losses/loss.h"

#include <ATen/TensorOperators.h>

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"

namespace tutti::keras::losses {

Loss::Loss(std::string name, Reduction reduction, Function function)
    : name_(std::move(name)), reduction_(reduction), function_(std::move(function)) {}

Tensor Loss::weighted_values(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  const Tensor values = function_(y_true, y_pred);
  return sample_weight.defined() ? values * broadcastable_weight(name_, sample_weight, values) : values;
}

Tensor Loss::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const {
  const Tensor values = weighted_values(y_true, y_pred, sample_weight);
  switch (reduction_) {
    case Reduction::none: return values;
    case Reduction::sum: return values.sum();
    case Reduction::sum_over_batch_size:
    case Reduction::mean: return values.mean();
    case Reduction::mean_with_sample_weight:
      if (!sample_weight.defined()) return values.mean();
      return values.sum() / broadcastable_weight(name_, sample_weight, values).expand_as(values).sum();
  }
  return values;
}

Tensor Loss::share(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                   int64_t global_batch_size) const {
  if (reduction_ == Reduction::none)
    throw Error(ErrorCode::invalid_argument,
                str(name_, ": the reduction is none; fit and evaluate need a loss that gives one number"));
  if (reduction_ == Reduction::mean_with_sample_weight && sample_weight.defined())
    throw Error(ErrorCode::unimplemented,
                str(name_, ": fit and evaluate do not divide by the sum of the weights; use sum_over_batch_size"));
  const Tensor values = weighted_values(y_true, y_pred, sample_weight);
  if (reduction_ == Reduction::sum) return values.sum();
  int64_t num_values = global_batch_size;
  for (int64_t axis = 1; axis < values.dim(); ++axis) num_values *= values.size(axis);
  return values.sum() / num_values;
}

}  // namespace tutti::keras::losses
