#include <cmath>
#include <numbers>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

Operand input_of(const C& c, const char* name = "self") { return c.operand(name, arithmetic(c.result().dtype)); }
Operand times(const C& c, const Operand& x, double factor) {
  return factor == 1 ? x : c.node("Mul", {x, c.number_like(factor, x)});
}
Operand sigmoid_of(const C& c, const Operand& x) { return c.node("Sigmoid", {x}); }
Operand limited(const C& c, const Operand& x, double least, double most) {
  return c.node("Clip", {x, c.number_like(least, x), c.number_like(most, x)});
}

// ONNX's operators of such names take one number, whose name and default are their own.
Operands with_number(const C& c, const char* op, const char* attribute, double value) {
  return {c.node(op, {input_of(c)}, {{attribute, static_cast<float>(value)}})};
}

Operands relu(const C& c) { return {c.node("Relu", {input_of(c)})}; }
Operands relu6(const C& c) { return {limited(c, input_of(c), 0, 6)}; }
Operands hardtanh(const C& c) { return {limited(c, input_of(c), c.number("min_val", -1), c.number("max_val", 1))}; }

// max(0, x), and of what is below that a part of exp(x inner) - 1.
Operand elu_of(const C& c, const Operand& x, double alpha, double scale, double inner) {
  const Operand zero = c.number_like(0, x), below = times(c, c.node("Min", {x, zero}), inner);
  const Operand curve = c.node("Sub", {c.node("Exp", {below}), c.number_like(1, x)});
  const Operand sum = c.node("Add", {c.node("Max", {x, zero}), times(c, curve, alpha)});
  return times(c, sum, scale);
}
Operands elu(const C& c) {
  return {elu_of(c, input_of(c), c.number("alpha", 1), c.number("scale", 1), c.number("input_scale", 1))};
}
Operands celu(const C& c) {
  const double alpha = c.number("alpha", 1);
  return {elu_of(c, input_of(c), alpha, 1, 1 / alpha)};
}
Operands selu(const C& c) { return {elu_of(c, input_of(c), 1.6732632423543772, 1.0507009873554805, 1)}; }

Operands silu(const C& c) {
  const Operand x = input_of(c);
  return {c.node("Mul", {x, sigmoid_of(c, x)})};
}
Operand softplus_of(const C& c, const Operand& x, double beta) {
  return times(c, c.node("Softplus", {times(c, x, beta)}), 1 / beta);
}
// Beyond its threshold, 20 by default, it is x to the last bit of a float.
Operands softplus(const C& c) {
  if (c.number("threshold", 20) < 15) c.refuse("with a 'threshold' below 15");
  return {softplus_of(c, input_of(c), c.number("beta", 1))};
}
Operands mish(const C& c) {
  const Operand x = input_of(c);
  return {c.node("Mul", {x, c.node("Tanh", {softplus_of(c, x, 1)})})};
}
Operands log_sigmoid(const C& c) { return {c.node("Neg", {c.node("Softplus", {c.node("Neg", {input_of(c)})})})}; }

// (x + 3) / 6, between 0 and 1.
Operand hardsigmoid_of(const C& c, const Operand& x) {
  return times(c, limited(c, c.node("Add", {x, c.number_like(3, x)}), 0, 6), 1.0 / 6);
}
Operands hardsigmoid(const C& c) { return {hardsigmoid_of(c, input_of(c))}; }
Operands hardswish(const C& c) {
  const Operand x = input_of(c);
  return {c.node("Mul", {x, hardsigmoid_of(c, x)})};
}

// x (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh.
Operands gelu(const C& c) {
  const Operand x = input_of(c);
  Operand curve = times(c, x, std::numbers::sqrt2 / 2);
  if (c.has("approximate") && c.text("approximate") == "tanh") {
    const Operand cube = c.node("Mul", {c.node("Mul", {x, x}), x});
    const Operand sum = c.node("Add", {x, times(c, cube, 0.044715)});
    curve = c.node("Tanh", {times(c, sum, std::numbers::sqrt2 * std::numbers::inv_sqrtpi)});
  } else {
    curve = c.node("Erf", {curve});
  }
  return {c.node("Mul", {times(c, x, 0.5), c.node("Add", {curve, c.number_like(1, x)})})};
}

// The channels are the axis 1.
Operands prelu(const C& c) {
  const Operand x = input_of(c);
  Operand slope = input_of(c, "weight");
  if (c.rank("self") > 2 && c.rank("weight") == 1) {
    std::vector<int64_t> sizes(c.rank("self") - 1, 1);
    sizes[0] = -1;
    slope = c.node("Reshape", {slope, c.graph.integers(sizes)});
  }
  return {c.node("PRelu", {x, slope})};
}

Operands threshold(const C& c) {
  const Operand x = input_of(c), is_above = c.node("Greater", {x, c.operand("threshold", x.dtype)}).as(at::kBool);
  return {c.node("Where", {is_above, x, c.operand("value", x.dtype)}).as(x.dtype)};
}

// The first half of an axis times the sigmoid of the second.
Operands glu(const C& c) {
  const int64_t axis = c.axis("dim", c.rank("self"));
  const Operands halves = c.graph.node("Split", {input_of(c)}, {{"axis", axis}}, 2);
  return {c.node("Mul", {halves[0], sigmoid_of(c, halves[1])})};
}

Operands shrink(const C& c, double bias) {
  const double limit = c.number("lambd", 0.5);
  return {c.node("Shrink", {input_of(c)},
                 {{"lambd", static_cast<float>(limit)}, {"bias", static_cast<float>(bias * limit)}})};
}

Operand softmax_of(const C& c, const char* op) {
  if (c.rank("self") == 0) c.refuse("of a tensor without axes");
  return c.node(op, {input_of(c)}, {{"axis", c.axis("dim", c.rank("self"))}});
}

constexpr NamedLowering kActivations[] = {
    {"relu", relu},
    {"relu6", relu6},
    {"sigmoid", [](const C& c) { return Operands{sigmoid_of(c, input_of(c))}; }},
    {"leaky_relu", [](const C& c) { return with_number(c, "LeakyRelu", "alpha", c.number("negative_slope", 0.01)); }},
    {"elu", elu},
    {"selu", selu},
    {"celu", celu},
    {"gelu", gelu},
    {"silu", silu},
    {"mish", mish},
    {"softplus", softplus},
    {"log_sigmoid", log_sigmoid},
    {"hardtanh", hardtanh},
    {"hardsigmoid", hardsigmoid},
    {"hardswish", hardswish},
    {"softshrink", [](const C& c) { return shrink(c, 1); }},
    {"hardshrink", [](const C& c) { return shrink(c, 0); }},
    {"prelu", prelu},
    {"threshold", threshold},
    {"glu", glu},
    {"softmax", [](const C& c) { return Operands{softmax_of(c, "Softmax")}; }},
    {"log_softmax", [](const C& c) { return Operands{softmax_of(c, "LogSoftmax")}; }},
};

}  // namespace

std::span<const NamedLowering> activation_lowerings() { return kActivations; }

}  // namespace tutti::saved_model::onnx
