#include "tutti/estimator/losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/where.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/model_call.h"

namespace tutti::estimator::losses {
namespace {

// Labels in the dtype and shape of the predictions.
Tensor fitting(const Tensor& labels, const Tensor& predictions) {
  if (!labels.defined()) throw Error(ErrorCode::invalid_argument, "a loss needs labels, and the input has none");
  const Tensor fitted = labels.dim() + 1 == predictions.dim() ? labels.unsqueeze(-1) : labels;
  if (fitted.sizes() != predictions.sizes())
    throw Error(ErrorCode::invalid_argument, str("labels of shape ", str_list(labels.sizes()), " and predictions of ",
                                                 str_list(predictions.sizes()), "; a loss takes the same of both"));
  return fitted.to(predictions.scalar_type());
}

// The weights broadcast to the losses; a last axis of 1 gives way.
Tensor spread(const Tensor& weights, const Tensor& losses) {
  if (!weights.defined()) return at::ones_like(losses);
  const bool has_extra_axis = weights.dim() == losses.dim() + 1 && weights.size(-1) == 1;
  const bool lacks_axis = weights.dim() + 1 == losses.dim() && losses.size(-1) == 1;
  const Tensor fitted = has_extra_axis ? weights.squeeze(-1) : lacks_axis ? weights.unsqueeze(-1) : weights;
  return fitted.to(losses.scalar_type()).expand(losses.sizes());
}

}  // namespace

Tensor compute_weighted_loss(const Tensor& losses, const LossOptions& options) {
  const Tensor weights = spread(options.weights, losses);
  const Tensor sum = (losses * weights).sum();
  if (ModelCall* const call = ModelCall::current()) call->set_loss_is_sum(options.reduction == Reduction::sum);
  if (options.reduction == Reduction::sum) return sum;
  if (options.reduction == Reduction::sum_over_batch_size)
    return losses.numel() == 0 ? sum : sum / static_cast<double>(losses.numel());
  const Tensor divisor =
      options.reduction == Reduction::mean ? weights.sum() : (weights != 0).sum().to(losses.scalar_type());
  const Tensor is_zero = divisor == 0;
  return at::where(is_zero, sum * 0, sum / at::where(is_zero, at::ones_like(divisor), divisor));
}

Tensor absolute_difference(const Tensor& labels, const Tensor& predictions, const LossOptions& options) {
  return compute_weighted_loss((predictions - fitting(labels, predictions)).abs(), options);
}

Tensor mean_squared_error(const Tensor& labels, const Tensor& predictions, const LossOptions& options) {
  return compute_weighted_loss((predictions - fitting(labels, predictions)).square(), options);
}

Tensor huber_loss(const Tensor& labels, const Tensor& predictions, const LossOptions& options) {
  constexpr int64_t kEach = 0;  // at::Reduction::None
  return compute_weighted_loss(at::huber_loss(predictions, fitting(labels, predictions), kEach, /*delta=*/1), options);
}

Tensor hinge_loss(const Tensor& labels, const Tensor& logits, const LossOptions& options) {
  const Tensor signs = fitting(labels, logits) * 2 - 1;
  return compute_weighted_loss(at::relu(1 - signs * logits), options);
}

Tensor sigmoid_cross_entropy(const Tensor& labels, const Tensor& logits, const LossOptions& options) {
  constexpr int64_t kEach = 0;
  return compute_weighted_loss(at::binary_cross_entropy_with_logits(logits, fitting(labels, logits), {}, {}, kEach),
                               options);
}

Tensor softmax_cross_entropy(const Tensor& labels, const Tensor& logits, const LossOptions& options) {
  return compute_weighted_loss(-(fitting(labels, logits) * at::log_softmax(logits, -1)).sum(-1), options);
}

Tensor sparse_softmax_cross_entropy(const Tensor& labels, const Tensor& logits, const LossOptions& options) {
  if (!labels.defined()) throw Error(ErrorCode::invalid_argument, "a loss needs labels, and the input has none");
  const Tensor classes = labels.reshape({-1, 1}).to(at::kLong);
  if (classes.size(0) != logits.size(0))
    throw Error(ErrorCode::invalid_argument, str("labels of shape ", str_list(labels.sizes()), " and logits of ",
                                                 str_list(logits.sizes()), "; there is a label for each row"));
  return compute_weighted_loss(-at::gather(at::log_softmax(logits, -1), 1, classes).squeeze(1), options);
}

}  // namespace tutti::estimator::losses
