#include "tutti/function/pointwise_op.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace tutti {
namespace {

using Operand = Program::Operand;

int64_t count_of(const Geometry& geometry) {
  return std::accumulate(geometry.sizes.begin(), geometry.sizes.end(), int64_t{1}, std::multiplies<>());
}

// The axes of more than one element, those whose elements lie closest last. None where elements overlap or have gaps.
std::optional<at::DimVector> axes_in_memory(const Geometry& geometry) {
  at::DimVector axes;
  for (size_t axis = 0; axis < geometry.sizes.size(); ++axis)
    if (geometry.sizes[axis] != 1) axes.push_back(static_cast<int64_t>(axis));
  const auto stride = [&](int64_t axis) { return geometry.strides[static_cast<size_t>(axis)]; };
  std::stable_sort(axes.begin(), axes.end(), [&](int64_t x, int64_t y) { return stride(x) > stride(y); });
  int64_t expected = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (stride(*axis) != expected) return {};
    expected *= geometry.sizes[static_cast<size_t>(*axis)];
  }
  return axes;
}

bool is_plain_float(const Geometry& geometry) {
  return geometry.dtype == at::kFloat && !geometry.conjugate && !geometry.negative && !geometry.zero;
}

// A number that LibTorch turns into a float32 by one rounding.
std::optional<float> number_of(const at::IValue& constant) {
  constexpr int64_t kExact = int64_t{1} << 53;
  double number = 0;
  if (constant.isTensor()) {
    if (!constant.toTensor().defined()) return {};
    const auto type = constant.toTensor().scalar_type();
    if (type != at::kDouble && type != at::kFloat && type != at::kLong) return {};
    number = constant.toTensor().item<double>();
    if (type == at::kLong && std::abs(number) >= static_cast<double>(kExact)) return {};
  } else if (constant.isDouble()) {
    number = constant.toDouble();
  } else if (constant.isInt()) {
    if (std::abs(constant.toInt()) >= kExact) return {};
    number = static_cast<double>(constant.toInt());
  } else {
    return {};
  }
  const auto rounded = static_cast<float>(number);
  if (std::isnan(number) || (std::isinf(rounded) && !std::isinf(number))) return {};
  return rounded;
}

// What reads the arguments of one call.
class Lowering {
 public:
  explicit Lowering(const Program::Call& call) : call_(call) {}

  size_t size() const { return call_.arguments.size(); }
  // -1: it is none.
  int tensor(size_t i) const {
    const Operand& argument = call_.arguments[i];
    return argument.kind == Operand::Kind::tensor ? argument.values[0] : -1;
  }
  std::optional<float> number(size_t i) const {
    const Operand& argument = call_.arguments[i];
    return argument.kind == Operand::Kind::constant ? number_of(argument.constant) : std::nullopt;
  }
  bool is_none(size_t i) const {
    return call_.arguments[i].kind == Operand::Kind::constant && call_.arguments[i].constant.isNone();
  }

 private:
  const Program::Call& call_;
};

using Lowered = std::optional<PointwiseOp>;

Lowered of_one(Pointwise what, int a, PointwiseNumbers numbers = {}) {
  if (a < 0) return {};
  return PointwiseOp{.what = what, .out = -1, .a = a, .numbers = numbers};
}

Lowered of_two(Pointwise what, int a, int b, PointwiseNumbers numbers = {}) {
  if (a < 0 || b < 0) return {};
  return PointwiseOp{.what = what, .out = -1, .a = a, .b = b, .numbers = numbers};
}

Lowered of_number(Pointwise what, int a, std::optional<float> number) {
  return number ? of_one(what, a, {.number = *number}) : std::nullopt;
}

Lowered addition(const Lowering& call) {
  const int a = call.tensor(0), b = call.tensor(1);
  const auto scale = call.number(2);
  if (!scale) return {};
  if (a >= 0 && b >= 0) {
    if (!has_fused_multiply_add()) return {};
    return *scale == 1 ? of_two(Pointwise::add, a, b) : of_two(Pointwise::add_scaled, a, b, {.number = *scale});
  }
  if (*scale != 1) return {};
  return a >= 0 ? of_number(Pointwise::add_number, a, call.number(1))
                : of_number(Pointwise::add_number, b, call.number(0));
}

Lowered subtraction(const Lowering& call) {
  const int a = call.tensor(0), b = call.tensor(1);
  const auto scale = call.number(2);
  if (!scale) return {};
  if (a >= 0 && b >= 0) {
    if (!has_fused_multiply_add()) return {};
    return *scale == 1 ? of_two(Pointwise::subtract, a, b) : of_two(Pointwise::add_scaled, a, b, {.number = -*scale});
  }
  if (*scale != 1) return {};
  if (b >= 0) return of_number(Pointwise::subtract_from, b, call.number(0));
  const auto number = call.number(1);
  return number ? of_number(Pointwise::add_number, a, -*number) : std::nullopt;
}

// number - a
Lowered reversed_subtraction(const Lowering& call) {
  return call.number(2) == 1.0F ? of_number(Pointwise::subtract_from, call.tensor(0), call.number(1)) : std::nullopt;
}

Lowered multiplication(const Lowering& call) {
  const int a = call.tensor(0), b = call.tensor(1);
  if (a >= 0 && b >= 0) return of_two(Pointwise::multiply, a, b);
  return a >= 0 ? of_number(Pointwise::multiply_number, a, call.number(1))
                : of_number(Pointwise::multiply_number, b, call.number(0));
}

Lowered division(const Lowering& call) {
  const int a = call.tensor(0), b = call.tensor(1);
  if (a >= 0 && b >= 0) return of_two(Pointwise::divide, a, b);
  return of_number(Pointwise::divide_number, a, call.number(1));
}

Lowered power(const Lowering& call) {
  const auto exponent = call.number(1);
  const int a = call.tensor(0);
  if (exponent == 1.0F) return of_one(Pointwise::copy, a);
  if (exponent == 2.0F) return of_one(Pointwise::square, a);
  if (exponent == 3.0F) return of_one(Pointwise::cube, a);
  return {};
}

Lowered clamping(const Lowering& call) {
  const auto low = call.number(1), high = call.number(2);
  const int a = call.tensor(0);
  if (low && high) return of_one(Pointwise::between, a, {.number = *low, .limit = *high});
  if (low && call.is_none(2)) return of_one(Pointwise::at_least, a, {.number = *low});
  if (high && call.is_none(1)) return of_one(Pointwise::at_most, a, {.number = *high});
  return {};
}

template <Pointwise what>
Lowered unary(const Lowering& call) {
  return of_one(what, call.tensor(0));
}

template <Pointwise what>
Lowered binary(const Lowering& call) {
  return of_two(what, call.tensor(0), call.tensor(1));
}

using Lower = Lowered (*)(const Lowering& call);

// In-place forms are found by the name without its underscore.
Lower lowering_of(const std::string& name) {
  static const std::unordered_map<std::string_view, Lower> all{
      {"aten::add.Tensor", addition},
      {"aten::add.Scalar", addition},
      {"aten::sub.Tensor", subtraction},
      {"aten::sub.Scalar", subtraction},
      {"aten::rsub.Scalar", reversed_subtraction},
      {"aten::mul.Tensor", multiplication},
      {"aten::mul.Scalar", multiplication},
      {"aten::div.Tensor", division},
      {"aten::div.Scalar", division},
      {"aten::pow.Tensor_Scalar", power},
      {"aten::clamp", clamping},
      {"aten::neg", unary<Pointwise::negate>},
      {"aten::abs", unary<Pointwise::absolute>},
      {"aten::rsqrt", unary<Pointwise::inverse_root>},
      {"aten::reciprocal", unary<Pointwise::reciprocal>},
      {"aten::clone", unary<Pointwise::copy>},
      {"aten::relu", [](const Lowering& call) { return of_number(Pointwise::at_least, call.tensor(0), 0.0F); }},
      {"aten::clamp_min",
       [](const Lowering& call) { return of_number(Pointwise::at_least, call.tensor(0), call.number(1)); }},
      {"aten::clamp_max",
       [](const Lowering& call) { return of_number(Pointwise::at_most, call.tensor(0), call.number(1)); }},
      {"aten::copy", [](const Lowering& call) { return of_one(Pointwise::copy, call.tensor(1)); }},
      {"aten::sigmoid_backward", binary<Pointwise::sigmoid_gradient>},
      {"aten::threshold_backward",
       [](const Lowering& call) -> Lowered {
         const auto threshold = call.number(2);
         if (!threshold) return {};
         return of_two(Pointwise::threshold_gradient, call.tensor(0), call.tensor(1), {.number = *threshold});
       }},
  };
  std::string functional = name;
  const size_t end = std::min(name.find('.'), name.size());
  if (end > 0 && name[end - 1] == '_') functional.erase(end - 1, 1);
  const auto found = all.find(functional);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace

std::optional<Spread> spread_of(const Geometry& operand, const Geometry& out) {
  const auto axes = axes_in_memory(out);
  if (!axes) return {};
  const int64_t missing = std::ssize(out.sizes) - std::ssize(operand.sizes);
  if (missing < 0) return {};
  // From the closest elements outwards: axes along which the operand stays, those along which it goes on, and others
  // along which it stays.
  Spread spread{.count = 1};
  bool ended = false;
  for (auto axis = axes->rbegin(); axis != axes->rend(); ++axis) {
    const int64_t own_axis = *axis - missing, size = out.sizes[static_cast<size_t>(*axis)];
    const bool stays = own_axis < 0 || operand.sizes[static_cast<size_t>(own_axis)] == 1 ||
                       operand.strides[static_cast<size_t>(own_axis)] == 0;
    if (stays && spread.count == 1)
      spread.repeats *= size;
    else if (stays)
      ended = true;
    else if (ended || operand.strides[static_cast<size_t>(own_axis)] != spread.count)
      return {};
    else
      spread.count *= size;
  }
  return spread;
}

std::optional<PointwiseOp> pointwise_op_of(const Program& program, const Program::Call& call) {
  if (!call.op || call.results.size() != 1 || call.results[0].kind != Operand::Kind::tensor) return {};
  const Lower lower = lowering_of(call.name);
  if (!lower) return {};
  auto op = lower(Lowering(call));
  if (!op || call.results[0].values[0] < 0) return {};
  op->out = call.results[0].values[0];
  const auto value = [&](int number) -> const Program::Value& { return program.values[static_cast<size_t>(number)]; };
  const Program::Value& out = value(op->out);
  op->count = count_of(out.geometry);
  if (!is_plain_float(out.geometry) || op->count == 0 || call.writes.size() != 1) return {};
  const auto read = [&](int number, Spread& spread) {
    const Program::Value& operand = value(number);
    const auto found = spread_of(operand.geometry, out.geometry);
    if (!found || !is_plain_float(operand.geometry)) return false;
    if (operand.buffer == out.buffer && number != op->out) return false;
    spread = *found;
    return true;
  };
  if (!read(op->a, op->spread_of_a)) return {};
  if (op->b >= 0 && !read(op->b, op->spread_of_b)) return {};
  return op;
}

}  // namespace tutti
