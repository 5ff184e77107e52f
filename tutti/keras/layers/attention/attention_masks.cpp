#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tutti/keras/layers/attention/attention_masks_internal.h"

namespace tutti::keras::layers {

Tensor attention_bias(const Tensor& query, const Tensor& value, const Tensor& query_mask, const Tensor& value_mask,
                      const Tensor& key_mask, bool causal) {
  Tensor counts;
  const auto also = [&](const Tensor& mask) { counts = counts.defined() ? counts.logical_and(mask) : mask; };
  if (query_mask.defined()) also(query_mask.unsqueeze(-1));
  if (value_mask.defined()) also(value_mask.unsqueeze(-2));
  if (key_mask.defined()) also(key_mask.unsqueeze(-2));
  if (causal)
    also(at::ones({query.size(1), value.size(1)}, at::TensorOptions(at::kBool).device(query.device())).tril());
  if (!counts.defined()) return {};
  const double never = query.scalar_type() == at::kHalf ? -3e4 : -1e9;
  return at::zeros(counts.sizes(), query.options().requires_grad(false)).masked_fill_(counts.logical_not(), never);
}

}  // namespace tutti::keras::layers
