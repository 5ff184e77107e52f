#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tutti/keras/layers/attention/attention_masks_internal.h"

namespace tutti::keras::layers {

Tensor attention_bias(const Tensor& query, const Tensor& value, const AttentionMasks& masks) {
  Tensor counts;
  const auto also = [&](const Tensor& mask) { counts = counts.defined() ? counts.logical_and(mask) : mask; };
  if (masks.query.defined()) also(masks.query.unsqueeze(-1));
  if (masks.value.defined()) also(masks.value.unsqueeze(-2));
  if (masks.key.defined()) also(masks.key.unsqueeze(-2));
  if (masks.attention.defined()) also(masks.attention);
  if (masks.causal)
    also(at::ones({query.size(1), value.size(1)}, at::TensorOptions(at::kBool).device(query.device())).tril());
  if (!counts.defined()) return {};
  const double never = query.scalar_type() == at::kHalf ? -3e4 : -1e9;
  return at::zeros(counts.sizes(), query.options().requires_grad(false)).masked_fill_(counts.logical_not(), never);
}

}  // namespace tutti::keras::layers
