#include <algorithm>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

Operand factor(const C& c, const char* name) { return c.tensor(name, arithmetic(c.result().dtype)); }
Operand scaled_by(const C& c, const Operand& x, const char* number) {
  return c.number(number, 1) == 1 ? x : c.node("Mul", {x, c.operand(number, x.dtype)});
}

Operands product(const C& c, const char* one, const char* other) {
  return {c.node("MatMul", {factor(c, one), factor(c, other)})};
}

// x weight^T + bias.
Operands linear(const C& c) {
  const Operand x = factor(c, "input"), weight = factor(c, "weight");
  if (c.rank("input") == 2 && c.rank("weight") == 2 && c.has("bias"))
    return {c.node("Gemm", {x, weight, factor(c, "bias")}, {{"transB", int64_t{1}}})};
  const Operand turned = c.rank("weight") == 2 ? c.graph.transpose(weight, {1, 0}) : weight;
  const Operand y = c.node("MatMul", {x, turned});
  return {c.has("bias") ? c.node("Add", {y, factor(c, "bias")}) : y};
}

// beta self + alpha (one other).
Operands sum_and_product(const C& c, const char* one, const char* other) {
  const Operand y = c.node("MatMul", {factor(c, one), factor(c, other)});
  if (c.number("beta", 1) == 0) return {scaled_by(c, y, "alpha")};
  return {c.node("Add", {scaled_by(c, factor(c, "self"), "beta"), scaled_by(c, y, "alpha")})};
}
Operands addmm(const C& c) {
  if (!at::isFloatingType(arithmetic(c.result().dtype))) return sum_and_product(c, "mat1", "mat2");
  const Attributes factors = {{"alpha", static_cast<float>(c.number("alpha", 1))},
                              {"beta", static_cast<float>(c.number("beta", 1))}};
  return {c.node("Gemm", {factor(c, "mat1"), factor(c, "mat2"), factor(c, "self")}, factors)};
}

Operands outer(const C& c) {
  const Operand a = c.graph.unsqueeze(factor(c, "self"), {1});
  const Operand b = c.graph.unsqueeze(factor(c, c.takes("vec2") ? "vec2" : "other"), {0});
  return {c.node("Mul", {a, b})};
}

Operand einsum_of(const C& c, const std::string& equation, const Operands& operands) {
  return c.node("Einsum", operands, {{"equation", equation}});
}
Operands einsum(const C& c) {
  Operands operands = c.tensors("tensors");
  for (Operand& operand : operands) operand = c.graph.cast(operand, arithmetic(c.result().dtype));
  std::string equation = c.text("equation");
  if (equation.find("->") == std::string::npos) c.refuse("without '->' in its equation");
  return {einsum_of(c, equation, operands)};
}

// The axes of the result: what is left of one, then what is left of the other.
Operands tensordot(const C& c) {
  const auto of_one = c.axes("dims_self", c.rank("self")), of_other = c.axes("dims_other", c.rank("other"));
  std::string one, other, left;
  for (size_t i = 0; i < c.rank("self"); ++i) {
    one += static_cast<char>('a' + i);
    if (!std::ranges::count(of_one, static_cast<int64_t>(i))) left += one.back();
  }
  for (size_t i = 0; i < c.rank("other"); ++i) {
    const auto found = std::ranges::find(of_other, static_cast<int64_t>(i));
    const bool is_summed = found != of_other.end();
    other += is_summed ? one[static_cast<size_t>(of_one[static_cast<size_t>(found - of_other.begin())])]
                       : static_cast<char>('a' + c.rank("self") + i);
    if (!is_summed) left += other.back();
  }
  return {einsum_of(c, one + ',' + other + "->" + left, {factor(c, "self"), factor(c, "other")})};
}

// y[..., o] = sum over i, j of one[..., i] weight[o, i, j] other[..., j]
Operands bilinear(const C& c) {
  const Operand half = einsum_of(c, "...i,oij->...oj", {factor(c, "input1"), factor(c, "weight")});
  const Operand y = einsum_of(c, "...oj,...j->...o", {half, factor(c, "input2")});
  return {c.has("bias") ? c.node("Add", {y, factor(c, "bias")}) : y};
}

constexpr NamedLowering kProducts[] = {
    {"linear", linear},
    {"matmul", [](const C& c) { return product(c, "self", "other"); }},
    {"mm", [](const C& c) { return product(c, "self", "mat2"); }},
    {"bmm", [](const C& c) { return product(c, "self", "mat2"); }},
    {"mv", [](const C& c) { return product(c, "self", "vec"); }},
    {"dot", [](const C& c) { return product(c, "self", "tensor"); }},
    {"addmm", addmm},
    {"addmv", [](const C& c) { return sum_and_product(c, "mat", "vec"); }},
    {"baddbmm", [](const C& c) { return sum_and_product(c, "batch1", "batch2"); }},
    {"outer", outer},
    {"einsum", einsum},
    {"tensordot", tensordot},
    {"bilinear", bilinear},
};

}  // namespace

std::span<const NamedLowering> matmul_lowerings() { return kProducts; }

}  // namespace tutti::saved_model::onnx
