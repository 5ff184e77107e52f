#include "tutti/keras/losses/circle.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/softplus.h>

#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/shards.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::losses {
namespace {

// log(sum(exp(x))) of each row over the entries chosen; for a row without any a number whose exponential is 0.
Tensor log_sum_exp(const Tensor& x, const Tensor& chosen) {
  // Half of the least number: two of these still have a sum, and a gradient of 0.
  return x.masked_fill(chosen.logical_not(), std::numeric_limits<float>::lowest() / 2).logsumexp(1);
}

Tensor row_numbers(const Tensor& rows, int64_t first) {
  return at::arange(first, first + rows.size(0), at::TensorOptions(at::kLong).device(rows.device()));
}

Values values(const CircleOptions& options, const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
  if (y_pred.dim() != 2 || y_true.numel() != y_pred.size(0))
    throw Error(ErrorCode::invalid_argument,
                str(options.name, ": labels of shape ", to_string(y_true.sizes()), " do not fit predictions of shape ",
                    to_string(y_pred.sizes()), "; they must be (N,) and (N, features)"));
  const Tensor labels = y_true.reshape({-1}).to(at::kLong);
  const Tensor all_labels = shards.concatenate(labels);
  const Tensor all_embeddings = shards.concatenate(y_pred);

  const Tensor same_class = labels.unsqueeze(1) == all_labels.unsqueeze(0);
  Tensor positive = same_class;
  if (options.remove_diagonal) {
    const Tensor own = row_numbers(labels, shards.rows_before(labels));
    positive = positive.logical_and(own.unsqueeze(1) != row_numbers(all_labels, 0).unsqueeze(0));
  }

  const double margin = options.margin;
  const Tensor distance = (1 - y_pred.matmul(all_embeddings.t())).clamp_min(0);
  const Tensor positive_terms = -options.gamma * (margin + distance).clamp_min(0) * (margin - distance);
  const Tensor negative_terms = options.gamma * (1 + margin - distance).clamp_min(0) * (1 - margin - distance);
  const Tensor losses =
      at::softplus(log_sum_exp(positive_terms, positive) + log_sum_exp(negative_terms, same_class.logical_not()));
  return {.values = losses, .mask = losses > 0};
}

}  // namespace

Circle::Circle(const CircleOptions& options)
    : Loss(options.name, options.reduction,
           [options](const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
             return values(options, y_true, y_pred, shards);
           }) {
  tell_made_from({"Circle", options});
}

}  // namespace tutti::keras::losses
