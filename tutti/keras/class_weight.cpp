#include "tutti/keras/class_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/shape.h"

namespace tutti::keras {

Tensor weigh_classes(const Batch& batch, const std::map<int64_t, double>& class_weight) {
  if (!batch.sample_weight.empty())
    throw Error(ErrorCode::invalid_argument, "fit: class_weight and sample weights are both given; use one of them");
  if (batch.y.size() != 1)
    throw Error(ErrorCode::invalid_argument,
                str("fit: class_weight is for models of one output; there are ", batch.y.size(), " labels"));
  const Tensor& y = batch.y[0];
  if (y.dim() == 0 || y.dim() > 2)
    throw Error(ErrorCode::invalid_argument, str("fit: class_weight needs labels [N], [N, 1] or [N, classes]; they "
                                                 "have shape ",
                                                 to_string(y.sizes())));
  const bool one_hot = y.dim() == 2 && y.size(1) > 1;
  const Tensor numbers = y.is_floating_point() ? y.round() : y;
  const Tensor classes = one_hot ? y.argmax(1) : numbers.reshape({-1});
  Tensor weights = at::ones(classes.sizes(), at::TensorOptions(at::kFloat).device(classes.device()));
  for (const auto& [label, weight] : class_weight) weights.masked_fill_(classes.eq(label), weight);
  return weights;
}

}  // namespace tutti::keras
