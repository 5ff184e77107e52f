#include "tutti/tensor/leaf_hooks.h"

#include <algorithm>

#include "tutti/core/error.h"

namespace tutti {
namespace {

using torch::autograd::hooks_list;
using torch::autograd::variable_list;

class LeafHooks final : public torch::autograd::FunctionPreHook {
 public:
  LeafHooks(std::shared_ptr<hooks_list> of_variable, std::shared_ptr<hooks_list> of_replica)
      : lists_{std::move(of_variable), std::move(of_replica)} {}

  variable_list operator()(const variable_list& gradients) override {
    variable_list results(gradients);
    for (const auto& list : lists_)
      for (const auto& hook : *list) {
        if (!hook) continue;  // removed
        const at::TensorBase result = hook(results[0]);
        if (result.defined()) results[0] = Tensor(result);
      }
    return results;
  }

 private:
  std::shared_ptr<hooks_list> lists_[2];
};

class SharedGradient final : public torch::autograd::PostAccumulateGradHook {
 public:
  SharedGradient(const Tensor& gradient, std::shared_ptr<std::atomic<bool>> shared)
      : gradient_(gradient.getIntrusivePtr()), shared_(std::move(shared)) {}

  void operator()(const Tensor& leaf) override {
    if (!shared_->load(std::memory_order_relaxed)) return;
    if (gradient_._unsafe_get_target() == leaf.grad().unsafeGetTensorImpl())
      throw Error(ErrorCode::failed_precondition,
                  "backward: between sum_gradients() and step() it would add a replica's gradient to the sum; call "
                  "step() or zero_grad() first");
    shared_->store(false, std::memory_order_relaxed);
  }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl> gradient_;
  std::shared_ptr<std::atomic<bool>> shared_;
};

}  // namespace

HookCount hooks_of(const Tensor& leaf) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(leaf);
  if (!meta || !meta->cpp_hooks_list_) return {};
  const hooks_list& hooks = *meta->cpp_hooks_list_;
  return {hooks.size(), static_cast<size_t>(std::count(hooks.begin(), hooks.end(), nullptr))};
}

void follow_hooks(const Tensor& leaf, const std::shared_ptr<hooks_list>& of_variable) {
  auto* meta = torch::autograd::impl::materialize_autograd_meta(leaf);
  // LibTorch adds a hook to the list that is there, and would else put one in the place of ours.
  if (!meta->cpp_hooks_list_) meta->cpp_hooks_list_ = std::make_shared<hooks_list>();
  torch::autograd::impl::clear_hooks(leaf);
  torch::autograd::impl::add_hook(leaf, std::make_unique<LeafHooks>(of_variable, meta->cpp_hooks_list_));
}

void watch_shared_gradient(const Tensor& leaf, const Tensor& gradient, std::shared_ptr<std::atomic<bool>> shared) {
  torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<SharedGradient>(gradient, std::move(shared)));
}

}  // namespace tutti
