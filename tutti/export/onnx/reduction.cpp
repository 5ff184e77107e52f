#include <numeric>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

// What is reduced: the axes that the call names, or all.
std::vector<int64_t> axes_of(const C& c) {
  const size_t rank = c.rank("self");
  if (c.takes("dim") && c.has("dim"))
    if (std::vector<int64_t> axes = c.axes("dim", rank); !axes.empty()) return axes;
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}
int64_t keeps(const C& c) { return int64_t{c.takes("keepdim") && c.flag("keepdim")}; }

// ReduceSum takes axes as an input, the others as an attribute.
Operand reduced(const C& c, const char* op, const Operand& x, int64_t keeps) {
  const std::vector<int64_t> axes = axes_of(c);
  if (axes.empty()) return x;  // one number
  if (op == std::string("ReduceSum")) return c.node(op, {x, c.graph.integers(axes)}, {{"keepdims", keeps}});
  return c.node(op, {x}, {{"axes", axes}, {"keepdims", keeps}});
}

Operand input_as_result(const C& c) { return c.tensor("self", arithmetic(c.result().dtype)); }
Operands reduce(const C& c, const char* op) { return {reduced(c, op, input_as_result(c), keeps(c))}; }

Operand place_of(const C& c, const char* op, const Operand& x, int64_t axis, int64_t keeps) {
  return c.node(op, {x}, {{"axis", axis}, {"keepdims", keeps}}).as(at::kLong);
}

// max(x), max(x, axis) with the places, or max(x, y).
Operands extremum(const C& c, const char* reduce, const char* place, const char* binary) {
  if (c.takes("other")) {
    const at::ScalarType dtype = arithmetic(c.result().dtype);
    return {c.node(binary, {c.tensor("self", dtype), c.tensor("other", dtype)})};
  }
  const Operand x = input_as_result(c), least = reduced(c, reduce, x, keeps(c));
  if (!c.takes("dim") || c.rank("self") == 0) return {least};
  return {least, place_of(c, place, x, c.axis("dim", c.rank("self")), keeps(c))};
}

Operands place(const C& c, const char* op) {
  const at::ScalarType dtype = arithmetic(c.type("self").dtype);
  const Operand x = c.tensor("self", dtype);
  if (c.rank("self") == 0) c.refuse("of a tensor without axes");
  if (c.has("dim")) return {place_of(c, op, x, c.axis("dim", c.rank("self")), keeps(c))};
  if (keeps(c)) c.refuse("of all axes, which are kept");
  return {place_of(c, op, c.node("Reshape", {x, c.graph.integers({-1})}), 0, 0)};
}

// Whether any or all are true.
Operands truth(const C& c, const char* op) {
  const Operand x = c.graph.cast(c.tensor("self", at::kBool), at::kInt);
  return {c.graph.cast(reduced(c, op, x, keeps(c)), at::kBool)};
}

// How many elements one result has, as a number without axes.
Operand count_of(const C& c, const Operand& x) {
  int64_t count = 1;
  bool is_known = true;
  for (const int64_t axis : axes_of(c)) {
    const auto size = constant_of(c.type("self").sizes[static_cast<size_t>(axis)]);
    if (size) count *= *size;
    is_known &= size.has_value();
  }
  if (is_known) return c.graph.number(static_cast<double>(count), x.dtype);
  const Operand sizes = c.node("Gather", {c.shape_of(x), c.graph.integers(axes_of(c))});
  return c.graph.cast(c.node("ReduceProd", {sizes}, {{"keepdims", int64_t{0}}}), x.dtype);
}

struct Moments {
  Operand variance, mean;
};
Moments moments(const C& c) {
  const Operand x = input_as_result(c), mean = reduced(c, "ReduceMean", x, 1);
  const Operand off = c.node("Sub", {x, mean});
  double correction = 1;
  if (c.takes("correction"))
    correction = c.number("correction", 1);
  else if (c.takes("unbiased"))
    correction = c.flag("unbiased") ? 1 : 0;
  Operand divisor = count_of(c, x);
  if (correction != 0) divisor = c.node("Sub", {divisor, c.number_like(correction, x)});
  const Operand sum = reduced(c, "ReduceSum", c.node("Mul", {off, off}), keeps(c));
  return {c.node("Div", {sum, divisor}), keeps(c) ? mean : reduced(c, "ReduceMean", x, 0)};
}
Operands var(const C& c) { return {moments(c).variance}; }
Operands std_deviation(const C& c) { return {c.node("Sqrt", {moments(c).variance})}; }
Operands var_mean(const C& c) {
  const auto [variance, mean] = moments(c);
  return {variance, mean};
}
Operands std_mean(const C& c) {
  const auto [variance, mean] = moments(c);
  return {c.node("Sqrt", {variance}), mean};
}

Operands norm(const C& c) {
  const char* const name = c.takes("ord") ? "ord" : "p";
  const double order = c.number(name, 2);
  if (order == 2) return reduce(c, "ReduceL2");
  if (order == 1) return reduce(c, "ReduceL1");
  c.refuse("of another order than 1 and 2");
}

Operands cumsum(const C& c) {
  if (c.rank("self") == 0) return {c.tensor("self")};
  return {c.node("CumSum", {input_as_result(c), c.graph.integer(c.axis("dim", c.rank("self")), at::kLong)})};
}

constexpr NamedLowering kReductions[] = {
    {"sum", [](const C& c) { return reduce(c, "ReduceSum"); }},
    {"mean", [](const C& c) { return reduce(c, "ReduceMean"); }},
    {"prod", [](const C& c) { return reduce(c, "ReduceProd"); }},
    {"amax", [](const C& c) { return reduce(c, "ReduceMax"); }},
    {"amin", [](const C& c) { return reduce(c, "ReduceMin"); }},
    {"max", [](const C& c) { return extremum(c, "ReduceMax", "ArgMax", "Max"); }},
    {"min", [](const C& c) { return extremum(c, "ReduceMin", "ArgMin", "Min"); }},
    {"argmax", [](const C& c) { return place(c, "ArgMax"); }},
    {"argmin", [](const C& c) { return place(c, "ArgMin"); }},
    {"any", [](const C& c) { return truth(c, "ReduceMax"); }},
    {"all", [](const C& c) { return truth(c, "ReduceMin"); }},
    {"logsumexp", [](const C& c) { return reduce(c, "ReduceLogSumExp"); }},
    {"var", var},
    {"std", std_deviation},
    {"var_mean", var_mean},
    {"std_mean", std_mean},
    {"norm", norm},
    {"linalg_vector_norm", norm},
    {"cumsum", cumsum},
};

}  // namespace

std::span<const NamedLowering> reduction_lowerings() { return kReductions; }

}  // namespace tutti::saved_model::onnx
