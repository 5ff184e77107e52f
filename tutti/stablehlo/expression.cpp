#include "tutti/stablehlo/expression.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "tutti/core/error.h"

namespace tutti::stablehlo {
namespace {

Dims broadcast(const Dims& x, const Dims& y) {
  Dims dims(std::max(x.size(), y.size()), 1);
  for (const Dims* one : {&x, &y})
    for (size_t i = 0; i < one->size(); ++i) {
      int64_t& dim = dims[dims.size() - one->size() + i];
      if (dim == 1) dim = (*one)[i];
    }
  return dims;
}

// erf(x) is x P(x²) / Q(x²) where |x| <= 3.92, and beyond that ±1 to 3e-8: fitted to the least largest error.
constexpr double kErfEnd = 3.92;
constexpr std::array<double, 7> kNumerator{1.9641445826957595e-08, -1.9915620075733224e-06, 0.00015134529560051718,
                                           0.004090265306388436,   0.05177751747872939,     0.20899695529798243,
                                           1.1283787421378424};
constexpr std::array<double, 5> kDenominator{0.0010510923638108027, 0.015132143645759882, 0.11875438839257357,
                                             0.5185471026206452, 1};

template <size_t n>
Expression polynomial(Expression x, const std::array<double, n>& coefficients) {
  Expression sum = x.number(coefficients[0]);
  for (size_t i = 1; i < n; ++i) sum = sum * x + coefficients[i];
  return sum;
}

}  // namespace

at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype; }

Expression argument(Builder& builder, const Call& call, size_t i, at::ScalarType dtype, const Dims& dims) {
  if (call.arguments.at(i).is_tensor) return {&builder, builder.convert(call.value(i), dtype)};
  return {&builder, builder.splat(call.scalar(i), {dtype, dims})};
}

Expression wide(Builder& builder, const Call& call, size_t i) {
  return argument(builder, call, i, wide(call.value(i).dtype()));
}

Expression binary(const char* op, Expression x, Expression y) {
  const Dims dims = broadcast(x.dims(), y.dims());
  return x.with(x.builder->binary(op, expand(x, dims).value, expand(y, dims).value));
}

Expression compare(const char* direction, Expression x, Expression y) {
  const Dims dims = broadcast(x.dims(), y.dims());
  return x.with(x.builder->compare(direction, expand(x, dims).value, expand(y, dims).value));
}

Expression select(Expression condition, Expression x, Expression y) {
  const Dims dims = broadcast(condition.dims(), broadcast(x.dims(), y.dims()));
  return x.with(x.builder->select(expand(condition, dims).value, expand(x, dims).value, expand(y, dims).value));
}

Expression erf(Expression x) {
  if (x.value.dtype() != at::kFloat)
    throw Error(ErrorCode::unimplemented, "erf, and so GELU, of float64 in a compiled program; float32 has it");
  const Expression inside = minimum(maximum(x, -kErfEnd), kErfEnd), square = inside * inside;
  return inside * polynomial(square, kNumerator) / polynomial(square, kDenominator);
}

Expression reduce(const char* op, Expression x, const at::Scalar& start, const Dims& axes, Keep keep) {
  Dims kept = x.dims();
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  const Expression reduced = x.with(x.builder->reduce(op, x.value, start, axes));
  return keep == Keep::yes ? reshape(reduced, kept) : reduced;
}

Expression mean(Expression x, const Dims& axes, Keep keep) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.dims()[static_cast<size_t>(axis)]);
  return sum(x, axes, keep) / count;
}

Dims all_axes(size_t rank) {
  Dims axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Dims axes_but(size_t rank, const Dims& left_out) {
  Dims axes;
  for (const int64_t axis : all_axes(rank))
    if (std::find(left_out.begin(), left_out.end(), axis) == left_out.end()) axes.push_back(axis);
  return axes;
}

Dims normal_axes(const Dims& axes, size_t rank) {
  if (axes.empty()) return all_axes(rank);
  Dims normal;
  if (rank == 0) return normal;
  for (const int64_t axis : axes) normal.push_back(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  std::sort(normal.begin(), normal.end());
  return normal;
}

Expression per_channel(Expression x, size_t rank) {
  Dims dims(rank, 1);
  dims[1] = x.dims()[0];
  return reshape(x, dims);
}

at::Scalar lowest(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool: return false;
    case at::kByte: return 0;
    case at::kChar: return std::numeric_limits<int8_t>::min();
    case at::kShort: return std::numeric_limits<int16_t>::min();
    case at::kInt: return std::numeric_limits<int32_t>::min();
    case at::kLong: return std::numeric_limits<int64_t>::min();
    default: return -std::numeric_limits<double>::infinity();
  }
}

Expression one_hot(Expression x, int64_t n, at::ScalarType dtype) {
  Dims dims = x.dims();
  const int64_t last = static_cast<int64_t>(dims.size());
  dims.push_back(n);
  const Value wanted = x.builder->broadcast_in_dim(x.value, dims, all_axes(x.rank()));
  const Value there = x.builder->iota(dims, last, x.value.dtype());
  return x.with(x.builder->convert(x.builder->compare("EQ", wanted, there), dtype));
}

}  // namespace tutti::stablehlo
