#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

struct Pair {
  Operand a, b;
};

// Both in the dtype in which LibTorch computes.
Pair pair_of(const C& c, const char* one = "self", const char* other = "other") {
  const at::ScalarType dtype = arithmetic(c.common_dtype({one, other}));
  return {c.operand(one, dtype), c.operand(other, dtype)};
}

Operands binary(const C& c, const char* op) {
  const auto [a, b] = pair_of(c);
  return {c.node(op, {a, b})};
}

Operand scaled(const C& c, const Operand& value, const char* factor) {
  if (!c.has(factor) || c.number(factor) == 1) return value;
  return c.node("Mul", {value, c.operand(factor, value.dtype)});
}

Operands add(const C& c) {
  const auto [a, b] = pair_of(c);
  return {c.node("Add", {a, scaled(c, b, "alpha")})};
}
Operands sub(const C& c) {
  const auto [a, b] = pair_of(c);
  return {c.node("Sub", {a, scaled(c, b, "alpha")})};
}
Operands rsub(const C& c) {
  const auto [a, b] = pair_of(c);
  return {c.node("Sub", {b, scaled(c, a, "alpha")})};
}

// What is left of a division that rounds down, with the divisor's sign. ONNX has it for integers alone.
Operand remainder(const C& c, const Operand& a, const Operand& b) {
  if (!at::isFloatingType(a.dtype)) return c.node("Mod", {a, b});
  const Operand rest = c.node("Mod", {a, b}, {{"fmod", int64_t{1}}}), zero = c.number_like(0, a);
  const auto is_negative = [&](const Operand& x) { return c.node("Less", {x, zero}).as(at::kBool); };
  const Operand is_whole = c.node("Equal", {rest, zero}).as(at::kBool);
  const Operand differ = c.node("Xor", {is_negative(rest), is_negative(b)});
  const Operand wraps = c.node("And", {differ, c.node("Not", {is_whole})});
  return c.node("Where", {wraps, c.node("Add", {rest, b}), rest}).as(a.dtype);
}

Operand floor_divide(const C& c, const Operand& a, const Operand& b) {
  const Operand quotient = c.node("Div", {c.node("Sub", {a, remainder(c, a, b)}), b});
  return at::isFloatingType(a.dtype) ? c.node("Round", {quotient}) : quotient;
}

Operands div(const C& c) {
  const std::string rounding = c.has("rounding_mode") ? c.text("rounding_mode") : "";
  if (rounding.empty()) {
    const at::ScalarType dtype = arithmetic(c.result().dtype);
    return {c.node("Div", {c.operand("self", dtype), c.operand("other", dtype)})};
  }
  const auto [a, b] = pair_of(c);
  if (rounding == "floor") return {floor_divide(c, a, b)};
  const Operand quotient = c.node("Div", {a, b});
  if (!at::isFloatingType(a.dtype)) return {quotient};
  return {c.node("Mul", {c.node("Sign", {quotient}), c.node("Floor", {c.node("Abs", {quotient})})})};
}

// Exponents are taken in the dtype of the result.
Operands pow(const C& c) {
  const at::ScalarType dtype = arithmetic(c.result().dtype);
  return {c.node("Pow", {c.operand("self", dtype), c.operand("exponent", dtype)})};
}

Operands compare(const C& c, const char* op) {
  const auto [a, b] = pair_of(c);
  return {c.node(op, {a, b}).as(at::kBool)};
}
Operands ne(const C& c) { return {c.node("Not", compare(c, "Equal"))}; }

Operands logical(const C& c, const char* op) {
  return {c.node(op, {c.operand("self", at::kBool), c.operand("other", at::kBool)})};
}
// Of integers the set of operators has no bits.
Operands bitwise(const C& c, const char* op) {
  if (c.result().dtype != at::kBool) c.refuse("of integers, whose bits ONNX does not know before its set 18");
  return logical(c, op);
}

Operand real(const C& c, const char* name = "self") { return c.operand(name, arithmetic(c.result().dtype)); }
Operands unary(const C& c, const char* op) { return {c.node(op, {real(c)})}; }
// What leaves integers as they are.
Operands rounded(const C& c, const char* op) {
  if (!at::isFloatingType(c.result().dtype)) return {c.tensor("self")};
  if (c.has("decimals") && c.integer("decimals") != 0) c.refuse("with 'decimals'");
  return unary(c, op);
}
Operands trunc(const C& c) {
  if (!at::isFloatingType(c.result().dtype)) return {c.tensor("self")};
  const Operand x = real(c);
  return {c.node("Mul", {c.node("Sign", {x}), c.node("Floor", {c.node("Abs", {x})})})};
}
Operands rsqrt(const C& c) { return {c.node("Reciprocal", {c.node("Sqrt", {real(c)})})}; }
Operands square(const C& c) {
  const Operand x = real(c);
  return {c.node("Mul", {x, x})};
}
Operands log_of_base(const C& c, double factor) {
  const Operand x = c.node("Log", {real(c)});
  return {c.node("Mul", {x, c.number_like(factor, x)})};
}
Operands log1p(const C& c) {
  const Operand x = real(c);
  return {c.node("Log", {c.node("Add", {x, c.number_like(1, x)})})};
}
Operands expm1(const C& c) {
  const Operand x = real(c);
  return {c.node("Sub", {c.node("Exp", {x}), c.number_like(1, x)})};
}
Operands exp2(const C& c) {
  const Operand x = real(c);
  return {c.node("Pow", {c.number_like(2, x), x})};
}
Operands erfc(const C& c) {
  const Operand x = real(c);
  return {c.node("Sub", {c.number_like(1, x), c.node("Erf", {x})})};
}

// ONNX asks only floating point whether it is a number.
Operand question(const C& c, const char* op) {
  const at::ScalarType dtype = c.type("self").dtype;
  return c.node(op, {c.tensor("self", at::isFloatingType(dtype) ? arithmetic(dtype) : at::kFloat)}).as(at::kBool);
}
Operands isfinite(const C& c) { return {c.node("Not", {c.node("Or", {question(c, "IsNaN"), question(c, "IsInf")})})}; }

Operands where(const C& c) {
  const at::ScalarType dtype = widened(c.result().dtype);
  return {c.node("Where", {c.operand("condition", at::kBool), c.operand("self", dtype), c.operand("other", dtype)})
              .as(dtype)};
}
Operands masked_fill(const C& c) {
  const at::ScalarType dtype = widened(c.result().dtype);
  return {c.node("Where", {c.tensor("mask", at::kBool), c.operand("value", dtype), c.tensor("self", dtype)}).as(dtype)};
}

// With numbers or tensors as limits; the upper one wins.
Operands clamp(const C& c) {
  Operand x = real(c);
  if (c.has("min")) x = c.node("Max", {x, c.operand("min", x.dtype)});
  if (c.has("max")) x = c.node("Min", {x, c.operand("max", x.dtype)});
  return {x};
}

Operands lerp(const C& c) {
  const Operand begin = real(c), way = c.node("Sub", {real(c, "end"), begin});
  return {c.node("Add", {begin, c.node("Mul", {way, real(c, "weight")})})};
}
Operands addc(const C& c, const char* op) {
  const Operand term = c.node(op, {real(c, "tensor1"), real(c, "tensor2")});
  return {c.node("Add", {real(c), scaled(c, term, "value")})};
}

constexpr double kPerLog2 = 1.4426950408889634074, kPerLog10 = 0.43429448190325182765;

constexpr NamedLowering kPointwise[] = {
    {"add", add},
    {"sub", sub},
    {"subtract", sub},
    {"rsub", rsub},
    {"mul", [](const C& c) { return binary(c, "Mul"); }},
    {"multiply", [](const C& c) { return binary(c, "Mul"); }},
    {"div", div},
    {"divide", div},
    {"true_divide", div},
    {"floor_divide",
     [](const C& c) {
       const auto [a, b] = pair_of(c);
       return Operands{floor_divide(c, a, b)};
     }},
    {"remainder",
     [](const C& c) {
       const auto [a, b] = pair_of(c);
       return Operands{remainder(c, a, b)};
     }},
    {"fmod",
     [](const C& c) {
       const auto [a, b] = pair_of(c);
       return Operands{c.node("Mod", {a, b}, {{"fmod", int64_t{1}}})};
     }},
    {"pow", pow},
    {"maximum", [](const C& c) { return binary(c, "Max"); }},
    {"minimum", [](const C& c) { return binary(c, "Min"); }},
    {"eq", [](const C& c) { return compare(c, "Equal"); }},
    {"ne", ne},
    {"not_equal", ne},
    {"lt", [](const C& c) { return compare(c, "Less"); }},
    {"le", [](const C& c) { return compare(c, "LessOrEqual"); }},
    {"gt", [](const C& c) { return compare(c, "Greater"); }},
    {"ge", [](const C& c) { return compare(c, "GreaterOrEqual"); }},
    {"less", [](const C& c) { return compare(c, "Less"); }},
    {"less_equal", [](const C& c) { return compare(c, "LessOrEqual"); }},
    {"greater", [](const C& c) { return compare(c, "Greater"); }},
    {"greater_equal", [](const C& c) { return compare(c, "GreaterOrEqual"); }},
    {"logical_and", [](const C& c) { return logical(c, "And"); }},
    {"logical_or", [](const C& c) { return logical(c, "Or"); }},
    {"logical_xor", [](const C& c) { return logical(c, "Xor"); }},
    {"logical_not", [](const C& c) { return Operands{c.node("Not", {c.tensor("self", at::kBool)})}; }},
    {"bitwise_and", [](const C& c) { return bitwise(c, "And"); }},
    {"bitwise_or", [](const C& c) { return bitwise(c, "Or"); }},
    {"bitwise_xor", [](const C& c) { return bitwise(c, "Xor"); }},
    {"__and__", [](const C& c) { return bitwise(c, "And"); }},
    {"__or__", [](const C& c) { return bitwise(c, "Or"); }},
    {"__xor__", [](const C& c) { return bitwise(c, "Xor"); }},
    {"bitwise_not",
     [](const C& c) {
       if (c.result().dtype != at::kBool) c.refuse("of integers, whose bits ONNX does not know before its set 18");
       return Operands{c.node("Not", {c.tensor("self")})};
     }},
    {"abs", [](const C& c) { return unary(c, "Abs"); }},
    {"neg", [](const C& c) { return unary(c, "Neg"); }},
    {"negative", [](const C& c) { return unary(c, "Neg"); }},
    {"sign", [](const C& c) { return unary(c, "Sign"); }},
    {"exp", [](const C& c) { return unary(c, "Exp"); }},
    {"exp2", exp2},
    {"expm1", expm1},
    {"log", [](const C& c) { return unary(c, "Log"); }},
    {"log1p", log1p},
    {"log2", [](const C& c) { return log_of_base(c, kPerLog2); }},
    {"log10", [](const C& c) { return log_of_base(c, kPerLog10); }},
    {"sqrt", [](const C& c) { return unary(c, "Sqrt"); }},
    {"rsqrt", rsqrt},
    {"square", square},
    {"reciprocal", [](const C& c) { return unary(c, "Reciprocal"); }},
    {"sin", [](const C& c) { return unary(c, "Sin"); }},
    {"cos", [](const C& c) { return unary(c, "Cos"); }},
    {"tan", [](const C& c) { return unary(c, "Tan"); }},
    {"asin", [](const C& c) { return unary(c, "Asin"); }},
    {"acos", [](const C& c) { return unary(c, "Acos"); }},
    {"atan", [](const C& c) { return unary(c, "Atan"); }},
    {"sinh", [](const C& c) { return unary(c, "Sinh"); }},
    {"cosh", [](const C& c) { return unary(c, "Cosh"); }},
    {"tanh", [](const C& c) { return unary(c, "Tanh"); }},
    {"asinh", [](const C& c) { return unary(c, "Asinh"); }},
    {"acosh", [](const C& c) { return unary(c, "Acosh"); }},
    {"atanh", [](const C& c) { return unary(c, "Atanh"); }},
    {"erf", [](const C& c) { return unary(c, "Erf"); }},
    {"erfc", erfc},
    {"floor", [](const C& c) { return rounded(c, "Floor"); }},
    {"ceil", [](const C& c) { return rounded(c, "Ceil"); }},
    {"round", [](const C& c) { return rounded(c, "Round"); }},
    {"trunc", trunc},
    {"isnan", [](const C& c) { return Operands{question(c, "IsNaN")}; }},
    {"isinf", [](const C& c) { return Operands{question(c, "IsInf")}; }},
    {"isfinite", isfinite},
    {"where", where},
    {"masked_fill", masked_fill},
    {"clamp", clamp},
    {"clip", clamp},
    {"clamp_min", clamp},
    {"clamp_max", clamp},
    {"lerp", lerp},
    {"addcmul", [](const C& c) { return addc(c, "Mul"); }},
    {"addcdiv", [](const C& c) { return addc(c, "Div"); }},
};

}  // namespace

std::span<const NamedLowering> pointwise_lowerings() { return kPointwise; }

}  // namespace tutti::saved_model::onnx
