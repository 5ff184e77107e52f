// Random numbers: of the distributions that LibTorch draws, by bits of the program's own, so not LibTorch's numbers.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

Value bits(Builder& b, const Call& c, const Type& type) {
  if (!c.random_state) throw Error(ErrorCode::internal, "a call that draws has no state to draw from");
  if (numel(type.dims) >= int64_t{1} << 32)
    throw Error(ErrorCode::unimplemented, "more than 2^32 random numbers in one call; draw them in several");
  return numel(type.dims) == 0 ? b.splat(0, type) : b.random_bits(*c.random_state, type);
}

int digits_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble: return 53;
    case at::kHalf: return 11;
    case at::kBFloat16: return 8;
    default: return 24;
  }
}

// In [0, 1), multiples of 2^-digits, calculated with in float32 or float64.
Expression fractions(Builder& b, const Call& c, const Dims& dims, at::ScalarType dtype) {
  const bool in_double = dtype == at::kDouble;
  const Value drawn = bits(b, c, {in_double ? at::kUInt64 : at::kUInt32, dims});
  const int digits = digits_of(dtype);
  const Value high = b.binary("shift_right_logical", drawn, b.splat_like((in_double ? 64 : 32) - digits, drawn));
  return Expression{&b, b.convert(high, wide(dtype))} * std::ldexp(1.0, -digits);
}

at::ScalarType real_dtype(const Call& c) { return c.results[0].dtype == at::kDouble ? at::kDouble : at::kFloat; }

Results uniform(Builder& b, const Call& c) {
  const double from = c.real(1), to = c.real(2);
  return {fractions(b, c, c.results[0].dims, c.results[0].dtype) * (to - from) + from};
}
Results rand(Builder& b, const Call& c) { return {fractions(b, c, c.results[0].dims, c.results[0].dtype)}; }

// Two independent fractions make one number (Box and Muller, 1958).
Expression standard_normal(Builder& b, const Call& c) {
  Dims dims = c.results[0].dims;
  dims.insert(dims.begin(), 2);
  const Expression pair = fractions(b, c, dims, real_dtype(c));
  const auto half = [&](int64_t i) {
    Dims from(dims.size(), 0), to = dims;
    from[0] = i;
    to[0] = i + 1;
    return reshape(pair.with(b.slice(pair.value, from, to)), c.results[0].dims);
  };
  return sqrt(log(1 - half(0)) * -2) * unary("cosine", half(1) * (2 * std::numbers::pi));
}

// Overloads: a tensor that is written, mean and deviation; or these two alone, tensors or numbers.
Results normal(Builder& b, const Call& c) {
  const size_t count = c.arguments.size();
  if (count != 3 && count != 4)
    throw Error(ErrorCode::unimplemented, "normal of sizes in a compiled program; write randn(sizes) * std + mean");
  const size_t mean = count - 3;
  const at::ScalarType dtype = real_dtype(c);
  return {standard_normal(b, c) * argument(b, c, mean + 1, dtype) + argument(b, c, mean, dtype)};
}
Results randn(Builder& b, const Call& c) { return {standard_normal(b, c)}; }

bool is_number(const Call& c, size_t i) {
  return i < c.arguments.size() && !c.arguments[i].is_tensor && c.arguments[i].constant.isScalar();
}

// Overloads: the probabilities are the tensor itself, or behind it a number or other tensors.
Results bernoulli(Builder& b, const Call& c) {
  const bool are_behind = is_number(c, 1) || (c.arguments.size() > 1 && c.arguments[1].is_tensor);
  const size_t p = are_behind ? 1 : 0;
  const bool in_double = c.arguments[p].is_tensor && c.value(p).dtype() == at::kDouble;
  const at::ScalarType dtype = in_double ? at::kDouble : at::kFloat;
  return {compare("LT", fractions(b, c, c.results[0].dims, dtype), argument(b, c, p, dtype))};
}

Results exponential(Builder& b, const Call& c) {
  return {-log(1 - fractions(b, c, c.results[0].dims, real_dtype(c))) / c.real(1)};
}

// Whole numbers from `low` on, so many; 0: 2^63.
Expression wholes(Builder& b, const Call& c, int64_t low, int64_t count) {
  const Value drawn = bits(b, c, {at::kUInt64, c.results[0].dims});
  const Value taken = count ? b.binary("remainder", drawn, b.splat_like(count, drawn))
                            : b.binary("shift_right_logical", drawn, b.splat_like(1, drawn));
  return Expression{&b, b.convert(taken, at::kLong)} + static_cast<double>(low);
}

// How many numbers random_() chooses from.
int64_t num_choices(at::ScalarType dtype) {
  switch (dtype) {
    case at::kLong: return 0;
    case at::kInt: return int64_t{1} << 31;
    case at::kShort: return 1 << 15;
    case at::kChar: return 1 << 7;
    case at::kByte: return 1 << 8;
    case at::kBool: return 2;
    default: return (int64_t{1} << digits_of(dtype)) + 1;
  }
}

// Overloads: all that the dtype has; below a number; from one number up to another.
Results random(Builder& b, const Call& c) {
  if (!is_number(c, 1)) return {wholes(b, c, 0, num_choices(c.results[0].dtype))};
  if (c.arguments.size() < 4) return {wholes(b, c, 0, c.integer(1))};
  if (!is_number(c, 2)) throw Error(ErrorCode::unimplemented, "random_ from a number on; say up to which");
  return {wholes(b, c, c.integer(1), c.integer(2) - c.integer(1))};
}

// Overloads: high; low and high; behind a tensor or not.
Results randint(Builder& b, const Call& c) {
  const size_t first = c.arguments[0].is_tensor ? 1 : 0;
  const bool has_low = is_number(c, first + 1);
  const int64_t low = has_low ? c.integer(first) : 0;
  return {wholes(b, c, low, c.integer(has_low ? first + 1 : first) - low)};
}

constexpr NamedLowering kRandoms[] = {
    {"uniform", uniform}, {"rand", rand},        {"rand_like", rand},       {"normal", normal},
    {"randn", randn},     {"randn_like", randn}, {"bernoulli", bernoulli},  {"exponential", exponential},
    {"random", random},   {"randint", randint},  {"randint_like", randint},
};

}  // namespace

std::span<const NamedLowering> random_lowerings() { return kRandoms; }

}  // namespace tutti::stablehlo
