#include "tests/support/tutorial_mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

TutorialMlp TutorialMlp::on(const TutorialLayouts& layouts) const {
  const auto place = [&](const Tensor& value, const std::vector<std::string>& axes) {
    return distribute_tensor(value.detach(), Layout(axes, layouts.mesh)).requires_grad_();
  };
  return {place(weight1, layouts.weight1), place(bias1, {layouts.weight1[1]}), place(weight2, layouts.weight2),
          place(bias2, {layouts.weight2[1]})};
}

Tensor TutorialMlp::logits(const Tensor& inputs) const {
  const Tensor hidden = at::relu(at::matmul(inputs, weight1) + bias1);
  const auto [variance, mean] = at::var_mean(hidden, at::OptionalIntArrayRef({0}), /*correction=*/at::Scalar(0));
  return at::matmul((hidden - mean) * at::rsqrt(variance + 1e-5), weight2) + bias2;
}

TutorialMlp::Step TutorialMlp::train(const Tensor& inputs, const Tensor& labels, double learning_rate) {
  const Tensor predicted = logits(inputs);
  const Tensor loss = at::cross_entropy_loss(predicted, labels, {}, at::Reduction::Sum);
  loss.backward();
  const at::NoGradGuard no_grad;
  for (Tensor* parameter : parameters()) {
    parameter->sub_(learning_rate * parameter->grad());
    parameter->mutable_grad().reset();
  }
  const Tensor right = at::argmax(predicted, -1).eq(labels);
  return {loss.item<double>() / static_cast<double>(inputs.size(0)), right.to(at::kFloat).mean().item<double>()};
}

}  // namespace tutti
