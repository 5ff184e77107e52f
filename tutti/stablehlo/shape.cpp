#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

// Views have no lowering: the memory of a program knows them by their strides. Where LibTorch copies one, it is a
// value.
Results copy(Builder&, const Call& c) { return {c.value(0)}; }

Results copy_into(Builder& b, const Call& c) {
  const Expression source = argument(b, c, 1, c.results[0].dtype);
  return {expand(source, c.results[0].dims)};
}

Results reshaped(Builder& b, const Call& c) { return {b.reshape(c.value(0), c.results[0].dims)}; }

std::vector<Value> parts_of(Builder& b, const Call& c) {
  std::vector<Value> parts;
  for (const Value& part : c.values(0))
    if (part.rank() != 1 || part.dims()[0] != 0) parts.push_back(b.convert(part, c.results[0].dtype));
  return parts;
}
Results concatenate(Builder& b, const Call& c) {
  const std::vector<Value> parts = parts_of(b, c);
  return {b.concatenate(parts, c.has(1) ? c.axis(1, c.results[0].dims.size()) : 0)};
}
Results stack(Builder& b, const Call& c) {
  const int64_t axis = c.has(1) ? c.axis(1, c.results[0].dims.size()) : 0;
  std::vector<Value> parts = parts_of(b, c);
  for (Value& part : parts) {
    Dims dims = part.dims();
    dims.insert(dims.begin() + axis, 1);
    part = b.reshape(part, dims);
  }
  return {b.concatenate(parts, axis)};
}

// Zeros of the sizes, and the gradient from `start` on along an axis, with gaps.
Value placed(Builder& b, const Value& g, const Dims& sizes, int64_t axis, int64_t start, int64_t step) {
  Dims low(sizes.size(), 0), high = low, gaps = low;
  const auto at = static_cast<size_t>(axis);
  low[at] = start;
  gaps[at] = step - 1;
  high[at] = sizes[at] - start - (g.dims()[at] ? (g.dims()[at] - 1) * step + 1 : 0);
  return b.pad(g, 0, low, high, gaps);
}

// Gradient, sizes of the input, axis, start, end, step.
Results slice_backward(Builder& b, const Call& c) {
  const Dims sizes = c.dims(1);
  const int64_t axis = c.axis(2, sizes.size()), size = sizes[static_cast<size_t>(axis)];
  int64_t start = c.has(3) ? c.integer(3) : 0;
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  return {placed(b, c.value(0), sizes, axis, start, c.has(5) ? c.integer(5) : 1)};
}
// Gradient, sizes of the input, axis, index.
Results select_backward(Builder& b, const Call& c) {
  const Dims sizes = c.dims(1);
  const int64_t axis = c.axis(2, sizes.size()), index = c.integer(3);
  Dims row = sizes;
  row[static_cast<size_t>(axis)] = 1;
  return {placed(b, b.reshape(c.value(0), row), sizes, axis,
                 index < 0 ? index + sizes[static_cast<size_t>(axis)] : index, 1)};
}

// Before and after, from the last axis on.
Results constant_pad(Builder& b, const Call& c) {
  const Value& x = c.value(0);
  const Dims amounts = c.dims(1);
  Dims low(x.rank(), 0), high(x.rank(), 0);
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    low[x.rank() - 1 - i] = amounts[2 * i];
    high[x.rank() - 1 - i] = amounts[2 * i + 1];
  }
  return {b.pad(x, c.has(2) ? c.scalar(2) : at::Scalar(0), low, high, Dims(x.rank(), 0))};
}

Results flip(Builder& b, const Call& c) { return {b.reverse(c.value(0), normal_axes(c.dims(1), c.value(0).rank()))}; }

Results repeat(Builder& b, const Call& c) {
  const Value& x = c.value(0);
  const Dims times = c.dims(1);
  Dims dims, axes;
  for (size_t i = 0; i < times.size(); ++i) {
    dims.push_back(times[i]);
    const size_t own = i + x.rank() - times.size();
    if (i + x.rank() < times.size()) continue;
    axes.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(x.dims()[own]);
  }
  return {b.reshape(b.broadcast_in_dim(x, dims, axes), c.results[0].dims)};
}

constexpr NamedLowering kShapes[] = {
    {"clone", copy},
    {"_to_copy", copy},
    {"contiguous", copy},
    {"copy", copy_into},
    {"_unsafe_view", reshaped},
    {"_reshape_copy", reshaped},
    {"cat", concatenate},
    {"stack", stack},
    {"slice_backward", slice_backward},
    {"select_backward", select_backward},
    {"constant_pad_nd", constant_pad},
    {"flip", flip},
    {"repeat", repeat},
};

}  // namespace

std::span<const NamedLowering> shape_lowerings() { return kShapes; }

}  // namespace tutti::stablehlo
