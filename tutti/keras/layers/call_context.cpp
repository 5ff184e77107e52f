#include <algorithm>
#include <ranges>

#include "tutti/keras/layers/call_context_internal.h"

namespace tutti::keras::layers {
namespace {

thread_local CallContext* current_call = nullptr;

}  // namespace

CallContext::CallContext(const std::vector<Tensor>& inputs, const CallOptions& options, const CallKind& kind)
    : options_(options), outer_(std::exchange(current_call, this)), kind_(kind) {
  kind_.trial = kind_.trial || (outer_ && outer_->kind_.trial);
  if (outer_ && !kind_.shard) kind_.shard = outer_->kind_.shard;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (options.mask(i).defined()) remember(inputs[i], options.mask(i));
}

CallContext::~CallContext() { current_call = outer_; }

CallContext* CallContext::current() { return current_call; }

CallOptions CallContext::options_for(const std::vector<Tensor>& inputs, const CallOptions* given) const {
  const auto is_handed_on = [&](const Tensor& mask) {
    return std::ranges::any_of(options_.masks, [&](const Tensor& own) { return own.is_same(mask); });
  };
  CallOptions result = given ? *given : CallOptions{.training = options_.training};
  if (!result.added_losses) result.added_losses = options_.added_losses;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const Tensor mask = result.mask(i); mask.defined() && !is_handed_on(mask)) continue;
    const std::optional<Tensor> own = mask_of(inputs[i]);
    if (!own || (!own->defined() && i >= result.masks.size())) continue;
    if (i >= result.masks.size()) result.masks.resize(inputs.size());
    result.masks[i] = *own;
  }
  return result;
}

void CallContext::remember(const Tensor& tensor, const Tensor& mask) {
  if (!tensor.defined()) return;
  if (!mask.defined() && mask_of(tensor)) return;  // a layer that returned its input
  masks_.emplace_back(WeakTensor(tensor.getIntrusivePtr()), mask);
}

std::optional<Tensor> CallContext::mask_of(const Tensor& tensor) const {
  for (const auto& [known, mask] : std::views::reverse(masks_))
    if (known._unsafe_get_target() == tensor.unsafeGetTensorImpl()) return mask;
  return std::nullopt;
}

}  // namespace tutti::keras::layers
