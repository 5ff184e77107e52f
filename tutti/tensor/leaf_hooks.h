#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <memory>

namespace tutti {

using Tensor = at::Tensor;

// Lets the hooks of a variable run on the gradient of one of its leaves, before those that its replica registered.
void follow_hooks(const Tensor& leaf, const std::shared_ptr<torch::autograd::hooks_list>& of_variable);

// Watches over a gradient that replicas share: one that is computed anew is the replica's own again, and `shared`
// becomes false. Adding to the shared one is an error.
void watch_shared_gradient(const Tensor& leaf, const Tensor& gradient, std::shared_ptr<std::atomic<bool>> shared);

}  // namespace tutti
