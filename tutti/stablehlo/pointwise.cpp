#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

// Both in the dtype that LibTorch computes in.
std::pair<Expression, Expression> both(Builder& b, const Call& c) {
  at::ScalarType dtype = wide(c.common_dtype({0, 1}));
  return {argument(b, c, 0, dtype), argument(b, c, 1, dtype)};
}
// The same as real numbers.
std::pair<Expression, Expression> both_real(Builder& b, const Call& c) {
  at::ScalarType dtype = wide(c.common_dtype({0, 1}));
  if (!at::isFloatingType(dtype)) dtype = at::kFloat;
  return {argument(b, c, 0, dtype), argument(b, c, 1, dtype)};
}

// The factor `alpha` of add and sub.
Expression scaled(Builder& b, const Call& c, Expression x) {
  return c.has(2) ? x * x.with(b.splat_like(c.scalar(2), x.value)) : x;
}

template <const char* const& op>
Results of_two(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  return {binary(op, x, y)};
}
template <const char* const& direction>
Results comparing(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  return {compare(direction, x, y)};
}
// Of real numbers; whole ones become such.
template <const char* const& op>
Results of_one(Builder& b, const Call& c) {
  const at::ScalarType dtype = wide(c.results[0].dtype);
  return {unary(op, argument(b, c, 0, dtype))};
}
template <const char* const& op>
Results logical(Builder& b, const Call& c) {
  return {binary(op, argument(b, c, 0, at::kBool), argument(b, c, 1, at::kBool))};
}

constexpr const char *kExp = "exponential", *kExpm1 = "exponential_minus_one", *kLog = "log", *kLog1p = "log_plus_one",
                     *kSqrt = "sqrt", *kRsqrt = "rsqrt", *kSin = "sine", *kCos = "cosine", *kTanh = "tanh",
                     *kSigmoid = "logistic", *kNeg = "negate", *kAbs = "abs", *kSign = "sign", *kFloor = "floor",
                     *kCeil = "ceil", *kRound = "round_nearest_even", *kMul = "multiply", *kMax = "maximum",
                     *kMin = "minimum", *kEq = "EQ", *kNe = "NE", *kLt = "LT", *kLe = "LE", *kGt = "GT", *kGe = "GE",
                     *kAnd = "and", *kOr = "or", *kXor = "xor", *kAtan2 = "atan2";

Results add(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  return {x + scaled(b, c, y)};
}
Results subtract(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  return {x - scaled(b, c, y)};
}
Results subtract_from(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  return {y - scaled(b, c, x)};
}

Results divide(Builder& b, const Call& c) {
  if (c.has(2)) throw Error(ErrorCode::unimplemented, "a rounding mode; divide, and round by floor() or trunc()");
  const auto [x, y] = both_real(b, c);
  return {x / y};
}

Results reciprocal(Builder& b, const Call& c) {
  const Expression x = argument(b, c, 0, wide(c.results[0].dtype));
  return {x.number(1) / x};
}

Results power(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  if (!c.arguments[1].is_tensor && c.real(1) == 2) return {x * x};
  if (!c.arguments[1].is_tensor && c.real(1) == 0.5 && at::isFloatingType(x.value.dtype())) return {sqrt(x)};
  return {binary("power", x, y)};
}

// Of real numbers with the divisor's sign.
Results remainder(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  const Expression rest = binary("remainder", x, y), zero = rest.number(0);
  const Expression other_sign = x.with(
      b.compare("NE", compare("LT", rest, zero).value, expand(compare("LT", y, y.number(0)), rest.dims()).value));
  const Expression wrong = x.with(b.binary("and", compare("NE", rest, zero).value, other_sign.value));
  return {select(wrong, rest + y, rest)};
}

Results truncate(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  return {select(compare("LT", x, x.number(0)), unary("ceil", x), unary("floor", x))};
}

Results add_product(Builder& b, const Call& c) {
  const at::ScalarType dtype = wide(c.common_dtype({0, 1, 2}));
  const Expression x = argument(b, c, 0, dtype), y = argument(b, c, 1, dtype), z = argument(b, c, 2, dtype);
  return {x + y * (c.has(3) ? z * z.with(b.splat_like(c.scalar(3), z.value)) : z)};
}
Results add_quotient(Builder& b, const Call& c) {
  const at::ScalarType dtype = wide(c.common_dtype({0, 1, 2}));
  const Expression x = argument(b, c, 0, dtype), y = argument(b, c, 1, dtype), z = argument(b, c, 2, dtype);
  return {x + (c.has(3) ? y * y.with(b.splat_like(c.scalar(3), y.value)) : y) / z};
}

Results interpolate(Builder& b, const Call& c) {
  const at::ScalarType dtype = wide(c.common_dtype({0, 1}));
  const Expression x = argument(b, c, 0, dtype), y = argument(b, c, 1, dtype);
  return {x + argument(b, c, 2, dtype) * (y - x)};
}

Results clamp(Builder& b, const Call& c) {
  const at::ScalarType dtype = wide(c.common_dtype({0, 1, 2}));
  Expression x = argument(b, c, 0, dtype);
  if (c.has(1)) x = binary("maximum", x, argument(b, c, 1, dtype));
  if (c.has(2)) x = binary("minimum", x, argument(b, c, 2, dtype));
  return {x};
}
Results clamp_max(Builder& b, const Call& c) {
  const auto [x, y] = both(b, c);
  return {binary("minimum", x, y)};
}

Results where(Builder& b, const Call& c) {
  const at::ScalarType dtype = c.common_dtype({1, 2});
  return {select(argument(b, c, 0, at::kBool), argument(b, c, 1, dtype), argument(b, c, 2, dtype))};
}
Results masked_fill(Builder& b, const Call& c) {
  const at::ScalarType dtype = c.value(0).dtype();
  return {select(argument(b, c, 1, at::kBool), argument(b, c, 2, dtype), argument(b, c, 0, dtype))};
}

Results logical_not(Builder& b, const Call& c) { return {unary("not", argument(b, c, 0, at::kBool))}; }
Results bitwise_not(Builder& b, const Call& c) { return {Expression{&b, b.unary("not", c.value(0))}}; }
Results is_nan(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  return {compare("NE", x, x)};
}
Results error_function(Builder& b, const Call& c) { return {erf(wide(b, c, 0))}; }
Results square(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  return {x * x};
}

constexpr NamedLowering kPointwise[] = {
    {"exp", of_one<kExp>},
    {"expm1", of_one<kExpm1>},
    {"log", of_one<kLog>},
    {"log1p", of_one<kLog1p>},
    {"sqrt", of_one<kSqrt>},
    {"rsqrt", of_one<kRsqrt>},
    {"sin", of_one<kSin>},
    {"cos", of_one<kCos>},
    {"tanh", of_one<kTanh>},
    {"sigmoid", of_one<kSigmoid>},
    {"neg", of_one<kNeg>},
    {"abs", of_one<kAbs>},
    {"sign", of_one<kSign>},
    {"floor", of_one<kFloor>},
    {"ceil", of_one<kCeil>},
    {"round", of_one<kRound>},
    {"trunc", truncate},
    {"reciprocal", reciprocal},
    {"square", square},
    {"erf", error_function},
    {"isnan", is_nan},
    {"add", add},
    {"sub", subtract},
    {"rsub", subtract_from},
    {"mul", of_two<kMul>},
    {"div", divide},
    {"pow", power},
    {"remainder", remainder},
    {"atan2", of_two<kAtan2>},
    {"maximum", of_two<kMax>},
    {"minimum", of_two<kMin>},
    {"eq", comparing<kEq>},
    {"ne", comparing<kNe>},
    {"lt", comparing<kLt>},
    {"le", comparing<kLe>},
    {"gt", comparing<kGt>},
    {"ge", comparing<kGe>},
    {"logical_and", logical<kAnd>},
    {"logical_or", logical<kOr>},
    {"logical_xor", logical<kXor>},
    {"logical_not", logical_not},
    {"bitwise_and", of_two<kAnd>},
    {"bitwise_or", of_two<kOr>},
    {"bitwise_xor", of_two<kXor>},
    {"bitwise_not", bitwise_not},
    {"addcmul", add_product},
    {"addcdiv", add_quotient},
    {"lerp", interpolate},
    {"clamp", clamp},
    {"clamp_min", of_two<kMax>},
    {"clamp_max", clamp_max},
    {"where", where},
    {"masked_fill", masked_fill},
};

}  // namespace

std::span<const NamedLowering> pointwise_lowerings() { return kPointwise; }

}  // namespace tutti::stablehlo
