#include <ATen/ops/zeros.h>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/reduce.h"
#include "tutti/distribute/strategy.h"
#include "tutti/keras/optimizers/gradient_sums_internal.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/updates/buffer_updates.h"

namespace tutti::keras::optimizers {

namespace {

// For each variable how many processes have a gradient; nothing where there is one process.
std::vector<int64_t> processes_with_gradients(Brought<GradientShare> shares, const Strategy& strategy) {
  if (!strategy.processes()) return {};
  std::vector<int64_t> counts;
  for (size_t i = 0; i < shares[0].variables.size(); ++i) {
    bool any = false;
    for (size_t replica = 0; replica < shares.size(); ++replica) any |= shares[replica].gradients[i].defined();
    counts.push_back(any);
  }
  sum_numbers(strategy.processes(), counts, "which gradients there are", SameSums::zeros);
  return counts;
}

}  // namespace

std::span<const Tensor> GradientSums::take(Brought<GradientShare> shares, const Strategy& strategy) {
  const auto variables = shares[0].variables;
  for (size_t replica = 1; replica < shares.size(); ++replica)
    if (shares[replica].variables.size() != variables.size())
      throw Error(ErrorCode::invalid_argument,
                  str("apply_gradients: replica ", replica, " passes ", shares[replica].variables.size(),
                      " variables, replica 0 passes ", variables.size(), "; all must pass the same list"));
  release();
  std::vector<int64_t> present = processes_with_gradients(shares, strategy);
  sums_.resize(variables.size());
  items_.resize(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    BufferSum& item = items_[owners_.size()];
    for (size_t replica = 0; replica < shares.size(); ++replica)
      if (const Tensor& gradient = shares[replica].gradients[i]; gradient.defined()) item.values.push_back(gradient);
    if (item.values.empty() && !present.empty() && present[i] > 0)
      item.values.push_back(at::zeros(variables[i].sizes(), variables[i].options().requires_grad(false)));
    if (item.values.empty()) continue;
    require_reducible({item.values.data(), item.values.size()});
    owners_.push_back(i);
  }
  strategy.reduce_gradients({items_.data(), owners_.size()});
  for (size_t k = 0; k < owners_.size(); ++k) sums_[owners_[k]] = gradient_for(variables[owners_[k]], items_[k]);
  return sums_;
}

void GradientSums::release() {
  for (BufferSum& item : items_) {
    item.values.clear();
    item.result.reset();
    item.copies.clear();
  }
  owners_.clear();
  sums_.clear();
}

}  // namespace tutti::keras::optimizers
