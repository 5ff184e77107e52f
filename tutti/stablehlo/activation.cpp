#include <numbers>

#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

Expression if_above(Expression x, double limit, Expression above, Expression below) {
  return select(compare("GT", x, x.number(limit)), above, below);
}

Results relu(Builder& b, const Call& c) { return {maximum(wide(b, c, 0), 0)}; }

// Gradient, input, limit.
Results threshold_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0);
  return {if_above(wide(b, c, 1), c.real(2), g, g.number(0))};
}

// log(1 + exp(b x)) / b, and x where b x is beyond the threshold.
Results softplus(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0), scaled = x * c.real(1);
  return {if_above(scaled, c.real(2), x, unary("log_plus_one", exp(scaled)) / c.real(1))};
}
Results softplus_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), scaled = wide(b, c, 1) * c.real(2);
  return {if_above(scaled, c.real(3), g, g * sigmoid(scaled))};
}

Results leaky_relu(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  return {if_above(x, 0, x, x * (c.has(1) ? c.real(1) : 0.01))};
}
Results leaky_relu_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0);
  return {if_above(wide(b, c, 1), 0, g, g * c.real(2))};
}

// Factors of the negative side, of all, and of what is in the exponential.
Results elu(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  const double alpha = c.has(1) ? c.real(1) : 1, scale = c.has(2) ? c.real(2) : 1, inner = c.has(3) ? c.real(3) : 1;
  return {if_above(x, 0, x * scale, unary("exponential_minus_one", x * inner) * (alpha * scale))};
}
Results elu_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), x = wide(b, c, 5);
  const double alpha = c.real(1), scale = c.real(2), inner = c.real(3);
  const Expression negative =
      c.flag(4) ? g * inner * (x + alpha * scale) : g * exp(x * inner) * (inner * alpha * scale);
  return {if_above(x, 0, g * scale, negative)};
}

Results hardtanh(Builder& b, const Call& c) {
  return {minimum(maximum(wide(b, c, 0), c.has(1) ? c.real(1) : -1), c.has(2) ? c.real(2) : 1)};
}
Results hardtanh_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), x = wide(b, c, 1), zero = g.number(0);
  return {if_above(x, c.real(2), select(compare("LT", x, x.number(c.real(3))), g, zero), zero)};
}

Results silu(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  return {x * sigmoid(x)};
}
Results silu_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), x = wide(b, c, 1), s = sigmoid(x);
  return {g * s * (x * (1 - s) + 1)};
}

// Gradient, result.
Results tanh_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), y = wide(b, c, 1);
  return {g * (1 - y * y)};
}
Results sigmoid_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), y = wide(b, c, 1);
  return {g * (1 - y) * y};
}

bool is_approximate(const Call& c, size_t i) { return c.has(i) && c.arguments[i].constant.toStringRef() == "tanh"; }

constexpr double kCubic = 0.044715;  // of the approximation by tanh
Expression inner_of(Expression x) {
  return (x + x * x * x * kCubic) * (std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
}

Results gelu(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  if (is_approximate(c, 1)) return {x * 0.5 * (tanh(inner_of(x)) + 1)};
  return {x * 0.5 * (erf(x / std::numbers::sqrt2) + 1)};
}
Results gelu_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), x = wide(b, c, 1);
  if (is_approximate(c, 2)) {
    const Expression t = tanh(inner_of(x));
    const Expression slope = (x * x * (3 * kCubic) + 1) * (std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return {g * ((t + 1) * 0.5 + x * 0.5 * (1 - t * t) * slope)};
  }
  const Expression density = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return {g * ((erf(x / std::numbers::sqrt2) + 1) * 0.5 + x * density)};
}

constexpr NamedLowering kActivations[] = {
    {"relu", relu},
    {"threshold_backward", threshold_backward},
    {"softplus", softplus},
    {"softplus_backward", softplus_backward},
    {"leaky_relu", leaky_relu},
    {"leaky_relu_backward", leaky_relu_backward},
    {"elu", elu},
    {"elu_backward", elu_backward},
    {"hardtanh", hardtanh},
    {"hardtanh_backward", hardtanh_backward},
    {"silu", silu},
    {"silu_backward", silu_backward},
    {"tanh_backward", tanh_backward},
    {"sigmoid_backward", sigmoid_backward},
    {"gelu", gelu},
    {"gelu_backward", gelu_backward},
};

}  // namespace

std::span<const NamedLowering> activation_lowerings() { return kActivations; }

}  // namespace tutti::stablehlo
