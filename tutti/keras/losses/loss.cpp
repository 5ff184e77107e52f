#include "tutti/keras/losses/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <limits>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/shards.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::losses {
namespace {

Loss::ShardFunction of_own_shard(Loss::Function function) {
  return [function = std::move(function)](const Tensor& y_true, const Tensor& y_pred, const Shards&) {
    return Values{.values = function(y_true, y_pred)};
  };
}

int64_t num_values_of(const Tensor& values, int64_t batch_size) {
  int64_t num = batch_size;
  for (int64_t axis = 1; axis < values.dim(); ++axis) num *= values.size(axis);
  return num;
}

void require_samples(const std::string& name, const Values& values, const Tensor& y_pred) {
  if (values.of_batch || (values.values.dim() > 0 && values.values.size(0) == y_pred.size(0))) return;
  throw Error(ErrorCode::invalid_argument, str(name, ": predictions of shape ", to_string(y_pred.sizes()),
                                               " give values of shape ", to_string(values.values.sizes()),
                                               "; fit and evaluate need one or more for each sample: predictions "
                                               "of one number each have the shape (N, 1)"));
}

[[noreturn]] void refuse_weights_of_batch(const std::string& name) {
  throw Error(ErrorCode::invalid_argument,
              str(name, ": this loss is of the batch as a whole; it takes no sample weights and no mask"));
}

}  // namespace

Loss::Loss(std::string name, Reduction reduction, Function function)
    : Loss(std::move(name), reduction, of_own_shard(std::move(function))) {}

Loss::Loss(std::string name, Reduction reduction, ShardFunction function)
    : name_(std::move(name)), reduction_(reduction), function_(std::move(function)) {}

Values Loss::unreduced(const Tensor& y_true, const Tensor& y_pred, const Tensor& mask, const Shards& shards) const {
  Values result = function_(y_true, at_least_float(y_pred), shards);
  if (!mask.defined()) return result;
  if (result.of_batch) refuse_weights_of_batch(name_);
  const Tensor kept = broadcastable_weight(name_, mask, result.values, "masks").to(at::kBool);
  result.mask = result.mask.defined() ? result.mask.logical_and(kept) : kept;
  return result;
}

// Keras's reduce_weighted_values, where sums over the batch are sums over all of its shards.
Tensor Loss::reduced(const Values& all, const Tensor& sample_weight, int64_t batch_size, const Shards& shards) const {
  Tensor values = all.values;
  Tensor weight;
  if (sample_weight.defined()) {
    if (all.of_batch) refuse_weights_of_batch(name_);
    weight = broadcastable_weight(name_, sample_weight, values).to(values.scalar_type());
    values = values * weight;
  }
  if (all.mask.defined()) values = at::where(all.mask, values, 0.0);
  if (reduction_ == Reduction::none) return values;
  const Tensor total = all.of_batch ? values.sum() / shards.count() : values.sum();
  if (reduction_ == Reduction::sum) return total;

  if (reduction_ == Reduction::mean_with_sample_weight && weight.defined()) {
    if (all.mask.defined()) weight = at::where(all.mask, weight, 0.0);
    const Tensor divisor = shards.sum(weight.expand_as(values).sum());
    return total / divisor.masked_fill(divisor == 0, std::numeric_limits<double>::infinity());
  }
  if (all.mask.defined()) return total / shards.sum(all.mask.expand_as(values).sum()).clamp_min(1);
  const int64_t num_values = all.of_batch ? values.numel() : num_values_of(values, batch_size);
  return num_values == 0 ? total : total / num_values;
}

Tensor Loss::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                        const Tensor& mask) const {
  const Shards alone;
  const Values all = unreduced(y_true, y_pred, mask, alone);
  return reduced(all, sample_weight, all.values.dim() == 0 ? 1 : all.values.size(0), alone);
}

Tensor Loss::share(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, int64_t global_batch_size,
                   const Tensor& mask) const {
  if (reduction_ == Reduction::none)
    throw Error(ErrorCode::invalid_argument,
                str(name_, ": the reduction is none; fit and evaluate need a loss that gives one number"));
  const Shards shards = Shards::of_replicas();
  const Values all = unreduced(y_true, y_pred, mask, shards);
  require_samples(name_, all, y_pred);
  return reduced(all, sample_weight, global_batch_size, shards);
}

}  // namespace tutti::keras::losses
