#include "tutti/keras/label_shapes.h"

#include <ATen/core/Tensor.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/shape.h"

namespace tutti::keras {
namespace {

[[noreturn]] void refuse(const std::string& name, const char* left_name, const Tensor& left, const char* right_name,
                         const Tensor& right) {
  throw Error(ErrorCode::invalid_argument, str(name, ": ", left_name, " of shape ", to_string(left.sizes()),
                                               " do not fit ", right_name, " of shape ", to_string(right.sizes())));
}

}  // namespace

std::pair<Tensor, Tensor> same_rank(const Tensor& a, const Tensor& b) {
  if (a.dim() == b.dim() + 1 && a.size(-1) == 1) {
    if (b.dim() == 1) return {a, b.unsqueeze(-1)};
    return {a.squeeze(-1), b};
  }
  if (b.dim() == a.dim() + 1 && b.size(-1) == 1) {
    const auto [first, second] = same_rank(b, a);
    return {second, first};
  }
  return {a, b};
}

std::pair<Tensor, Tensor> elementwise_pair(const std::string& name, const Tensor& y_true, const Tensor& y_pred) {
  const auto [labels, predictions] = same_rank(y_true, y_pred);
  if (labels.sizes() != predictions.sizes()) refuse(name, "labels", y_true, "predictions", y_pred);
  return {labels.to(predictions.scalar_type()), predictions};
}

Tensor class_indices(const std::string& name, const Tensor& y_true, const Tensor& y_pred) {
  if (y_pred.dim() < 1) refuse(name, "labels", y_true, "predictions", y_pred);
  Tensor labels = y_true.dim() == y_pred.dim() && y_true.size(-1) == 1 ? y_true.squeeze(-1) : y_true;
  if (labels.sizes() != y_pred.sizes().slice(0, static_cast<size_t>(y_pred.dim()) - 1))
    refuse(name, "labels", y_true, "predictions", y_pred);
  return labels.to(at::kLong);
}

Tensor broadcastable_weight(const std::string& name, const Tensor& weight, const Tensor& values) {
  Tensor result = weight;
  if (result.dim() == values.dim() + 1 && result.size(-1) == 1) result = result.squeeze(-1);
  bool fits = result.dim() <= values.dim();
  for (int64_t axis = 0; fits && axis < result.dim(); ++axis)
    fits = result.size(axis) == values.size(axis) || result.size(axis) == 1;
  if (!fits) refuse(name, "weights", weight, "values", values);
  while (result.dim() < values.dim()) result = result.unsqueeze(-1);
  return result.to(values.scalar_type());
}

}  // namespace tutti::keras
