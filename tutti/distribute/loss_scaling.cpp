#include "tutti/distribute/loss_scaling.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/replica_context.h"

namespace tutti {
namespace {

int64_t num_replicas(const char* function) {
  if (in_cross_replica_context())
    throw Error(ErrorCode::failed_precondition,
                str(function, ": called in cross-replica context; call it in a function that strategy.run calls"));
  return get_replica_context().num_replicas_in_sync();
}

// The losses times the weights. A weight for each example counts for all values of it; [b, 1] weights fit [b] losses.
Tensor weighted(const Tensor& losses, const Tensor& sample_weight) {
  Tensor weight = sample_weight;
  if (weight.dim() + 1 == losses.dim()) weight = weight.unsqueeze(-1);
  if (weight.dim() == losses.dim() + 1 && weight.size(-1) == 1) weight = weight.squeeze(-1);
  if (!at::are_expandable(losses.sizes(), weight.sizes()))
    throw Error(ErrorCode::invalid_argument,
                str("compute_average_loss: sample_weight of shape ", str_list(sample_weight.sizes()),
                    " does not fit losses of shape ", str_list(losses.sizes())));
  return losses.mul(weight).to(losses.scalar_type());
}

}  // namespace

Tensor compute_average_loss(const Tensor& per_example_loss, const AverageLossOptions& options) {
  const int64_t replicas = num_replicas("compute_average_loss");
  if (per_example_loss.dim() == 0)
    throw Error(ErrorCode::invalid_argument,
                "compute_average_loss: the loss is a scalar; pass one loss for each example (reduction none)");
  const int64_t batch = options.global_batch_size.value_or(per_example_loss.size(0) * replicas);
  if (batch < 0) throw Error(ErrorCode::invalid_argument, str("compute_average_loss: global_batch_size is ", batch));
  Tensor losses =
      options.sample_weight.defined() ? weighted(per_example_loss, options.sample_weight) : per_example_loss;
  if (!losses.is_floating_point() && !losses.is_complex()) losses = losses.to(at::kDouble);
  if (batch == 0) return losses.sum().mul(0);
  return losses.sum().div(static_cast<double>(batch));
}

Tensor scale_regularization_loss(const Tensor& loss) {
  return loss.sum().div(static_cast<double>(num_replicas("scale_regularization_loss")));
}

Tensor scale_regularization_loss(const std::vector<Tensor>& losses) {
  const auto replicas = static_cast<double>(num_replicas("scale_regularization_loss"));
  if (losses.empty()) return at::zeros({});
  Tensor sum = losses[0].sum();
  for (size_t i = 1; i < losses.size(); ++i) sum = sum.add(losses[i].sum());
  return sum.div(replicas);
}

}  // namespace tutti
