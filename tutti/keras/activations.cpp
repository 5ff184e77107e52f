#include "tutti/keras/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>

namespace tutti::keras::activations {

constinit const Activation elu{"elu", [](const Tensor& x) { return at::elu(x); }};
constinit const Activation exponential{"exponential", [](const Tensor& x) { return x.exp(); }};
constinit const Activation gelu{"gelu", [](const Tensor& x) { return at::gelu(x); }};
constinit const Activation hard_sigmoid{"hard_sigmoid", [](const Tensor& x) { return at::hardsigmoid(x); }};
constinit const Activation leaky_relu{"leaky_relu", [](const Tensor& x) { return at::leaky_relu(x, 0.2); }};
constinit const Activation linear{};
constinit const Activation log_softmax{"log_softmax", [](const Tensor& x) { return x.log_softmax(-1); }};
constinit const Activation relu{"relu", [](const Tensor& x) { return x.relu(); }};
constinit const Activation relu6{"relu6", [](const Tensor& x) { return at::hardtanh(x, 0, 6); }};
constinit const Activation selu{"selu", [](const Tensor& x) { return at::selu(x); }};
constinit const Activation sigmoid{"sigmoid", [](const Tensor& x) { return x.sigmoid(); }};
constinit const Activation silu{"silu", [](const Tensor& x) { return at::silu(x); }};
constinit const Activation softmax{"softmax", [](const Tensor& x) { return x.softmax(-1); }};
constinit const Activation softplus{"softplus", [](const Tensor& x) { return at::softplus(x); }};
constinit const Activation softsign{"softsign", [](const Tensor& x) { return x / (1 + x.abs()); }};
constinit const Activation tanh{"tanh", [](const Tensor& x) { return x.tanh(); }};

}  // namespace tutti::keras::activations
