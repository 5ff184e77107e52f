#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

Operand filled(const C& c, const Operand& number) {
  const Operand value = c.graph.cast(number, widened(number.dtype));
  const std::optional<Operand> shape = c.sizes.of(c.result());
  if (shape) return c.node("Expand", {value, *shape});
  if (c.takes("self")) return c.node("Expand", {value, c.shape_of(c.tensor("self"))});
  c.refuse("of a size that follows from the inputs' in a way that ONNX is not told");
}
Operands filled_with(const C& c, double value) { return {filled(c, c.graph.number(value, c.result().dtype))}; }

Operands full(const C& c) {
  return {filled(c, c.operand(c.takes("fill_value") ? "fill_value" : "value", c.result().dtype))};
}
// x.copy_(source): the source with the sizes and the dtype of x.
Operands copy(const C& c) { return {filled(c, c.operand("src", c.result().dtype))}; }

Operands arange(const C& c) {
  const at::ScalarType dtype = c.result().dtype;
  const at::ScalarType in = at::isFloatingType(dtype) ? arithmetic(dtype) : at::kLong;
  const Operand begin = c.has("start") ? c.operand("start", in) : c.graph.integer(0, in);
  const Operand step = c.has("step") ? c.operand("step", in) : c.graph.integer(1, in);
  return {c.node("Range", {begin, c.operand("end", in), step})};
}

Operands scalar_tensor(const C& c) { return {c.operand("s", c.result().dtype)}; }

constexpr NamedLowering kCreation[] = {
    {"zeros", [](const C& c) { return filled_with(c, 0); }},
    {"zeros_like", [](const C& c) { return filled_with(c, 0); }},
    {"new_zeros", [](const C& c) { return filled_with(c, 0); }},
    {"zero", [](const C& c) { return filled_with(c, 0); }},
    {"ones", [](const C& c) { return filled_with(c, 1); }},
    {"ones_like", [](const C& c) { return filled_with(c, 1); }},
    {"new_ones", [](const C& c) { return filled_with(c, 1); }},
    // Memory without a value, which the next call gives it.
    {"empty", [](const C& c) { return filled_with(c, 0); }},
    {"empty_like", [](const C& c) { return filled_with(c, 0); }},
    {"new_empty", [](const C& c) { return filled_with(c, 0); }},
    {"full", full},
    {"full_like", full},
    {"new_full", full},
    {"fill", full},
    {"copy", copy},
    {"arange", arange},
    {"scalar_tensor", scalar_tensor},
};

}  // namespace

std::span<const NamedLowering> creation_lowerings() { return kCreation; }

}  // namespace tutti::saved_model::onnx
