#pragma once

#include <cmath>
#include <optional>

#include "tutti/stablehlo/call.h"

namespace tutti::stablehlo {

// A value that is calculated with as a formula is written. Operands are broadcast as LibTorch does it, and have one
// dtype.
struct Expression {
  Builder* builder;
  Value value;

  operator std::optional<Value>() const { return value; }
  const Dims& dims() const { return value.dims(); }
  size_t rank() const { return value.rank(); }
  Expression with(const Value& other) const { return {builder, other}; }
  Expression number(double number) const { return with(builder->splat_like(number, value)); }
};

// An argument in a dtype, if it is a number as one everywhere. `dims`: of what it is combined with.
Expression argument(Builder& builder, const Call& call, size_t i, at::ScalarType dtype, const Dims& dims = {});
// An argument in the dtype that is calculated in: half precision in float32.
Expression wide(Builder& builder, const Call& call, size_t i);
at::ScalarType wide(at::ScalarType dtype);

Expression binary(const char* op, Expression x, Expression y);
Expression compare(const char* direction, Expression x, Expression y);
Expression select(Expression condition, Expression x, Expression y);
inline Expression unary(const char* op, Expression x) { return x.with(x.builder->unary(op, x.value)); }

inline Expression operator+(Expression x, Expression y) { return binary("add", x, y); }
inline Expression operator-(Expression x, Expression y) { return binary("subtract", x, y); }
inline Expression operator*(Expression x, Expression y) { return binary("multiply", x, y); }
inline Expression operator/(Expression x, Expression y) { return binary("divide", x, y); }
inline Expression operator+(Expression x, double y) { return x + x.number(y); }
inline Expression operator-(Expression x, double y) { return x - x.number(y); }
inline Expression operator*(Expression x, double y) { return x * x.number(y); }
inline Expression operator/(Expression x, double y) { return x / x.number(y); }
inline Expression operator-(double x, Expression y) { return y.number(x) - y; }
inline Expression operator-(Expression x) { return unary("negate", x); }
inline Expression exp(Expression x) { return unary("exponential", x); }
inline Expression log(Expression x) { return unary("log", x); }
inline Expression sqrt(Expression x) { return unary("sqrt", x); }
inline Expression rsqrt(Expression x) { return unary("rsqrt", x); }
inline Expression tanh(Expression x) { return unary("tanh", x); }
inline Expression sigmoid(Expression x) { return unary("logistic", x); }
inline Expression maximum(Expression x, double y) { return binary("maximum", x, x.number(y)); }
inline Expression minimum(Expression x, double y) { return binary("minimum", x, x.number(y)); }
inline Expression convert(Expression x, at::ScalarType dtype) { return x.with(x.builder->convert(x.value, dtype)); }
inline Expression reshape(Expression x, const Dims& dims) { return x.with(x.builder->reshape(x.value, dims)); }
inline Expression expand(Expression x, const Dims& dims) { return x.with(x.builder->expand(x.value, dims)); }
// erf to 4e-7. Throws: unimplemented in float64.
Expression erf(Expression x);

enum class Keep { no, yes };  // summed axes: whether they stay, with size 1
Expression reduce(const char* op, Expression x, const at::Scalar& start, const Dims& axes, Keep keep = Keep::no);
inline Expression sum(Expression x, const Dims& axes, Keep keep = Keep::no) { return reduce("add", x, 0, axes, keep); }
Expression mean(Expression x, const Dims& axes, Keep keep = Keep::no);
// The numbers of all axes, or of all but some.
Dims all_axes(size_t rank);
Dims axes_but(size_t rank, const Dims& left_out);
// From the start, and all where none are given.
Dims normal_axes(const Dims& axes, size_t rank);
// A number for each channel, along axis 1 of so many.
Expression per_channel(Expression x, size_t rank);
// The least number that the dtype has.
at::Scalar lowest(at::ScalarType dtype);
// 1 where an index along a new last axis of n is the number in x, in a dtype.
Expression one_hot(Expression x, int64_t n, at::ScalarType dtype);

}  // namespace tutti::stablehlo
