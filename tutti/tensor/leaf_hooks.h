#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <cstddef>
#include <memory>

namespace tutti {

using Tensor = at::Tensor;

// How many hooks a variable was ever given, and how many of these are gone: equal numbers mean equal hooks.
struct HookCount {
  size_t given = 0, removed = 0;
  bool operator==(const HookCount&) const = default;
};
HookCount hooks_of(const Tensor& leaf);

// Lets the hooks of a variable run on the gradient of one of its leaves, before those that its replica registered.
void follow_hooks(const Tensor& leaf, const std::shared_ptr<torch::autograd::hooks_list>& of_variable);

// Watches over a gradient that several replicas' leaves have. When backward() gives this leaf a new one, that is the
// replica's own again, and `shared` becomes false; where backward() would add to the common one, it throws.
void watch_shared_gradient(const Tensor& leaf, const Tensor& gradient, std::shared_ptr<std::atomic<bool>> shared);

}  // namespace tutti
