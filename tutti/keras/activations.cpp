#include "tutti/keras/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/hardshrink.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softshrink.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras::activations {
namespace {

using Parameters = Activation::Parameters;

int64_t axis_in(const Parameters& p) { return static_cast<int64_t>(p[0]); }

Tensor relu_of(const Tensor& x, const Parameters& p) {
  const auto [negative_slope, max_value, threshold] = p;
  const Tensor above = threshold == 0 ? x.relu() : at::threshold(x, threshold, 0);
  const Tensor y = std::isinf(max_value) ? above : above.clamp_max(max_value);
  return negative_slope == 0 ? y : y - negative_slope * (threshold - x).relu();
}

Tensor sparse_plus_of(const Tensor& x) {
  const Tensor curve = (x.clamp(-1, 1) + 1).square() / 4;
  return at::where(x < 1, curve, x);
}

// Source: Martins and Astudillo, From softmax to sparsemax, 2016, algorithm 1.
Tensor sparsemax_of(const Tensor& x, const Parameters& p) {
  const int64_t axis = axis_in(p);
  const Tensor logits = x.movedim(axis, -1);
  const Tensor sorted = std::get<0>(logits.sort(/*dim=*/-1, /*descending=*/true));
  const Tensor sums = sorted.cumsum(-1);
  const Tensor ranks = at::arange(1, logits.size(-1) + 1, logits.options());
  const Tensor in_support = sorted * ranks > sums - 1;
  const Tensor num = in_support.sum(-1, /*keepdim=*/true);
  const Tensor threshold = (sums.gather(-1, num - 1) - 1) / num;
  return (logits - threshold).relu().movedim(-1, axis);
}

Tensor celu_of(const Tensor& x, const Parameters& p) { return at::celu(x, p[0]); }
Tensor elu_of(const Tensor& x, const Parameters& p) { return at::elu(x, p[0]); }
Tensor glu_of(const Tensor& x, const Parameters& p) { return at::glu(x, axis_in(p)); }
Tensor hard_shrink_of(const Tensor& x, const Parameters& p) { return at::hardshrink(x, p[0]); }
Tensor leaky_relu_of(const Tensor& x, const Parameters& p) { return at::leaky_relu(x, p[0]); }
Tensor log_softmax_of(const Tensor& x, const Parameters& p) { return x.log_softmax(axis_in(p)); }
Tensor soft_shrink_of(const Tensor& x, const Parameters& p) { return at::softshrink(x, p[0]); }
Tensor softmax_of(const Tensor& x, const Parameters& p) { return x.softmax(axis_in(p)); }
Tensor squareplus_of(const Tensor& x, const Parameters& p) { return (x + (x.square() + p[0]).sqrt()) / 2; }
Tensor threshold_of(const Tensor& x, const Parameters& p) { return at::threshold(x, p[0], p[1]); }

Activation with_axis(const char* name, Tensor (*function)(const Tensor&, const Parameters&), int64_t axis) {
  return {name, function, {static_cast<double>(axis)}};
}

}  // namespace

constinit const Activation celu{"celu", celu_of, {1}};
constinit const Activation elu{"elu", elu_of, {1}};
constinit const Activation exponential{"exponential", [](const Tensor& x) { return x.exp(); }};
constinit const Activation gelu{"gelu", [](const Tensor& x) { return at::gelu(x); }};
constinit const Activation glu{"glu", glu_of, {-1}};
constinit const Activation hard_shrink{"hard_shrink", hard_shrink_of, {0.5}};
constinit const Activation hard_sigmoid{"hard_sigmoid", [](const Tensor& x) { return at::hardsigmoid(x); }};
constinit const Activation hard_silu{"hard_silu", [](const Tensor& x) { return at::hardswish(x); }};
constinit const Activation hard_tanh{"hard_tanh", [](const Tensor& x) { return at::hardtanh(x, -1, 1); }};
constinit const Activation leaky_relu{"leaky_relu", leaky_relu_of, {0.2}};
constinit const Activation linear{};
constinit const Activation log_sigmoid{"log_sigmoid", [](const Tensor& x) { return at::log_sigmoid(x); }};
constinit const Activation log_softmax{"log_softmax", log_softmax_of, {-1}};
constinit const Activation mish{"mish", [](const Tensor& x) { return at::mish(x); }};
constinit const Activation relu{"relu", [](const Tensor& x) { return x.relu(); }};
constinit const Activation relu6{"relu6", [](const Tensor& x) { return at::hardtanh(x, 0, 6); }};
constinit const Activation selu{"selu", [](const Tensor& x) { return at::selu(x); }};
constinit const Activation sigmoid{"sigmoid", [](const Tensor& x) { return x.sigmoid(); }};
constinit const Activation silu{"silu", [](const Tensor& x) { return at::silu(x); }};
constinit const Activation soft_shrink{"soft_shrink", soft_shrink_of, {0.5}};
constinit const Activation softmax{"softmax", softmax_of, {-1}};
constinit const Activation softplus{"softplus", [](const Tensor& x) { return at::softplus(x); }};
constinit const Activation softsign{"softsign", [](const Tensor& x) { return x / (1 + x.abs()); }};
constinit const Activation sparse_plus{"sparse_plus", sparse_plus_of};
constinit const Activation sparse_sigmoid{"sparse_sigmoid", [](const Tensor& x) { return ((x + 1) / 2).clamp(0, 1); }};
constinit const Activation sparsemax{"sparsemax", sparsemax_of, {-1}};
constinit const Activation squareplus{"squareplus", squareplus_of, {4}};
constinit const Activation tanh{"tanh", [](const Tensor& x) { return x.tanh(); }};
constinit const Activation tanh_shrink{"tanh_shrink", [](const Tensor& x) { return x - x.tanh(); }};

namespace {

constexpr std::pair<std::string_view, const Activation*> kByName[] = {{"celu", &celu},
                                                                      {"elu", &elu},
                                                                      {"exponential", &exponential},
                                                                      {"gelu", &gelu},
                                                                      {"glu", &glu},
                                                                      {"hard_shrink", &hard_shrink},
                                                                      {"hard_sigmoid", &hard_sigmoid},
                                                                      {"hard_silu", &hard_silu},
                                                                      {"hard_swish", &hard_swish},
                                                                      {"hard_tanh", &hard_tanh},
                                                                      {"leaky_relu", &leaky_relu},
                                                                      {"linear", &linear},
                                                                      {"log_sigmoid", &log_sigmoid},
                                                                      {"log_softmax", &log_softmax},
                                                                      {"mish", &mish},
                                                                      {"relu", &relu},
                                                                      {"relu6", &relu6},
                                                                      {"selu", &selu},
                                                                      {"sigmoid", &sigmoid},
                                                                      {"silu", &silu},
                                                                      {"soft_shrink", &soft_shrink},
                                                                      {"softmax", &softmax},
                                                                      {"softplus", &softplus},
                                                                      {"softsign", &softsign},
                                                                      {"sparse_plus", &sparse_plus},
                                                                      {"sparse_sigmoid", &sparse_sigmoid},
                                                                      {"sparsemax", &sparsemax},
                                                                      {"squareplus", &squareplus},
                                                                      {"swish", &swish},
                                                                      {"tanh", &tanh},
                                                                      {"tanh_shrink", &tanh_shrink}};

}  // namespace

Activation::Activation(const char* name) {
  const auto* const found =
      std::ranges::find(kByName, std::string_view(name), [](const auto& one) { return one.first; });
  if (found != std::end(kByName)) {
    *this = *found->second;
    return;
  }
  std::string known;
  for (const auto& [one, activation] : kByName) known += str(known.empty() ? "" : ", ", one);
  throw Error(ErrorCode::invalid_argument, str("there is no activation \"", name, "\"; there are ", known));
}

CELU::CELU(double alpha) : Activation{"celu", celu_of, {alpha}} {}
ELU::ELU(double alpha) : Activation{"elu", elu_of, {alpha}} {}
GELU::GELU(const GELUOptions& options)
    : Activation{"gelu", options.approximate ? [](const Tensor& x) { return at::gelu(x, "tanh"); } : gelu.function} {}
GLU::GLU(int64_t axis) : Activation(with_axis("glu", glu_of, axis)) {}
HardShrink::HardShrink(double threshold) : Activation{"hard_shrink", hard_shrink_of, {threshold}} {}
LeakyReLU::LeakyReLU(double negative_slope) : Activation{"leaky_relu", leaky_relu_of, {negative_slope}} {}
LogSoftmax::LogSoftmax(int64_t axis) : Activation(with_axis("log_softmax", log_softmax_of, axis)) {}
ReLU::ReLU(const ReLUOptions& options)
    : Activation{"relu", relu_of, {options.negative_slope, options.max_value, options.threshold}} {}
Softmax::Softmax(int64_t axis) : Activation(with_axis("softmax", softmax_of, axis)) {}
SoftShrink::SoftShrink(double threshold) : Activation{"soft_shrink", soft_shrink_of, {threshold}} {}
Sparsemax::Sparsemax(int64_t axis) : Activation(with_axis("sparsemax", sparsemax_of, axis)) {}
SquarePlus::SquarePlus(double b) : Activation{"squareplus", squareplus_of, {b}} {}
Threshold::Threshold(const ThresholdOptions& options)
    : Activation{"threshold", threshold_of, {options.threshold, options.default_value}} {}

}  // namespace tutti::keras::activations
