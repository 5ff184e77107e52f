#include <limits>

#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

Keep keep_of(const Call& c, size_t i) { return c.has(i) && c.flag(i) ? Keep::yes : Keep::no; }

// Axes: of all overloads with a list; none are all. Sums of small integers are of int64, as LibTorch's.
Results sum_of(Builder& b, const Call& c) {
  const Expression x = argument(b, c, 0, wide(c.results[0].dtype));
  const bool lists = c.arguments.size() > 2;
  return {sum(x, normal_axes(lists ? c.dims(1) : Dims{}, x.rank()), lists ? keep_of(c, 2) : Keep::no)};
}
Results mean_of(Builder& b, const Call& c) {
  const Expression x = argument(b, c, 0, wide(c.results[0].dtype));
  const bool lists = c.arguments.size() > 2;
  return {mean(x, normal_axes(lists ? c.dims(1) : Dims{}, x.rank()), lists ? keep_of(c, 2) : Keep::no)};
}

Results largest(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  return {reduce("maximum", x, lowest(x.value.dtype()), normal_axes(c.dims(1), x.rank()), keep_of(c, 2))};
}
Results smallest(Builder& b, const Call& c) {
  if (!at::isFloatingType(c.value(0).dtype())) throw Error(ErrorCode::unimplemented, "whole numbers; convert them");
  const Expression x = wide(b, c, 0);
  return {
      reduce("minimum", x, std::numeric_limits<double>::infinity(), normal_axes(c.dims(1), x.rank()), keep_of(c, 2))};
}

// Overloads for all axes, and for one with its keepdim.
Dims one_or_all(const Call& c, size_t rank) {
  return c.has(1) && c.arguments[1].constant.isInt() ? Dims{c.axis(1, rank)} : normal_axes(c.dims(1), rank);
}
Results any_of(Builder& b, const Call& c) {
  const Expression x = argument(b, c, 0, at::kBool);
  return {reduce("or", x, false, one_or_all(c, x.rank()), keep_of(c, 2))};
}
Results all_of(Builder& b, const Call& c) {
  const Expression x = argument(b, c, 0, at::kBool);
  return {reduce("and", x, true, one_or_all(c, x.rank()), keep_of(c, 2))};
}

// The first index of the largest number along an axis: the least one of those where the number is the largest.
Expression first_index_of(Expression x, Expression largest, int64_t axis, Keep keep) {
  Builder& b = *x.builder;
  const int64_t n = x.dims()[static_cast<size_t>(axis)];
  const Expression index = x.with(b.iota(x.dims(), axis, at::kLong));
  return reduce("minimum", select(compare("EQ", x, largest), index, index.number(static_cast<double>(n - 1))), n - 1,
                {axis}, keep);
}

Results argmax(Builder& b, const Call& c) {
  Expression x = wide(b, c, 0);
  if (!c.has(1)) x = reshape(x, {numel(x.dims())});
  const int64_t axis = c.has(1) ? c.axis(1, x.rank()) : 0;
  const Expression largest = reduce("maximum", x, lowest(x.value.dtype()), {axis}, Keep::yes);
  return {reshape(first_index_of(x, largest, axis, Keep::no), c.results[0].dims)};
}

// max(axis) gives the numbers and their indices.
Results max_along(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  if (!c.has(1)) return {reduce("maximum", x, lowest(x.value.dtype()), all_axes(x.rank()))};
  const int64_t axis = c.axis(1, x.rank());
  const Expression top = reduce("maximum", x, lowest(x.value.dtype()), {axis}, Keep::yes);
  const Expression index = first_index_of(x, top, axis, keep_of(c, 2));
  return {reshape(top, index.dims()), index};
}

// Input, axes, correction, keepdim.
Results variance(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  const Dims axes = normal_axes(c.dims(1), x.rank());
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.dims()[static_cast<size_t>(axis)]);
  const Expression away = x - mean(x, axes, Keep::yes);
  return {sum(away * away, axes, keep_of(c, 3)) / (count - (c.has(2) ? c.real(2) : 1))};
}

constexpr NamedLowering kReductions[] = {
    {"sum", sum_of}, {"mean", mean_of},  {"amax", largest},  {"amin", smallest}, {"any", any_of},
    {"all", all_of}, {"max", max_along}, {"argmax", argmax}, {"var", variance},
};

}  // namespace

std::span<const NamedLowering> reduction_lowerings() { return kReductions; }

}  // namespace tutti::stablehlo
