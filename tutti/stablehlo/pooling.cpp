#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

// Over the last two axes. Arguments from `first` on are sizes, strides, padding.
Window window_of(const Call& c, size_t first, size_t rank) {
  const auto each = [&](size_t i, int64_t otherwise) {
    Dims given = c.dims(i), numbers(rank, otherwise);
    if (given.size() == 1) given.push_back(given[0]);
    for (size_t k = 0; k < given.size(); ++k) numbers[rank - 2 + k] = given[k];
    return numbers;
  };
  Window window{each(first, 1), each(first + 1, 1), each(first + 2, 0)};
  if (c.dims(first + 1).empty()) window.strides = window.sizes;
  return window;
}

void refuse(bool unknown, const char* what) {
  if (unknown) throw Error(ErrorCode::unimplemented, what);
}

void check_max_pool(const Call& c, size_t first) {
  for (const int64_t dilation : c.dims(first + 3)) refuse(dilation != 1, "a window with dilation");
  refuse(c.flag(first + 4), "ceil_mode; pad the input");
}

// The indices of the largest numbers are not given: the backward pass finds them again.
Results max_pool(Builder& b, const Call& c) {
  check_max_pool(c, 1);
  const Value& x = c.value(0);
  return {b.reduce_window("maximum", x, lowest(x.dtype()), window_of(c, 1, x.rank())), std::nullopt};
}
Results max_pool_backward(Builder& b, const Call& c) {
  check_max_pool(c, 2);
  const Value& x = c.value(1);
  return {b.select_and_scatter(x, c.value(0), window_of(c, 2, x.rank()))};
}

// The divisor of each window: its size, or how much of it is not padding.
Expression divisor_of(Builder& b, const Call& c, Expression sums, size_t first, const Window& window) {
  if (c.has(first + 5)) return sums.number(c.real(first + 5));
  const size_t rank = sums.rank();
  if (c.flag(first + 4)) return sums.number(static_cast<double>(window.sizes[rank - 1] * window.sizes[rank - 2]));
  Dims dims = c.value(first == 1 ? 0 : 1).dims();
  const Value ones = b.splat(1, {sums.value.dtype(), dims});
  return {&b, b.reduce_window("add", ones, 0, window)};
}

Results average_pool(Builder& b, const Call& c) {
  refuse(c.flag(4), "ceil_mode; pad the input");
  const Expression x = wide(b, c, 0);
  const Window window = window_of(c, 1, x.rank());
  const Expression sums{&b, b.reduce_window("add", x.value, 0, window)};
  return {sums / divisor_of(b, c, sums, 1, window)};
}

// Each share of the gradient goes to all places of its window: a sum over windows of the gradient with gaps of zeros.
Results average_pool_backward(Builder& b, const Call& c) {
  refuse(c.flag(5), "ceil_mode; pad the input");
  const Expression g = wide(b, c, 0);
  const Dims& dims = c.value(1).dims();
  Window window = window_of(c, 2, g.rank());
  const Expression share = g / divisor_of(b, c, g, 2, window);
  Dims low, high, gaps;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t reach = window.sizes[i] - 1, spread = (g.dims()[i] - 1) * window.strides[i] + 1;
    low.push_back(reach - window.padding[i]);
    high.push_back(dims[i] + reach - spread - low.back());
    gaps.push_back(window.strides[i] - 1);
  }
  const Value spread = b.pad(share.value, 0, low, high, gaps);
  window.strides.assign(dims.size(), 1);
  window.padding.assign(dims.size(), 0);
  return {b.reduce_window("add", spread, 0, window)};
}

// To sizes that divide the input's.
Results adaptive_average_pool(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  const size_t rank = x.rank();
  const Dims& to = c.results[0].dims;
  Window window{Dims(rank, 1), Dims(rank, 1), Dims(rank, 0)};
  for (size_t i = rank - 2; i < rank; ++i) {
    refuse(x.dims()[i] % to[i] != 0, "to a size that does not divide the input's");
    window.sizes[i] = window.strides[i] = x.dims()[i] / to[i];
  }
  const Expression sums{&b, b.reduce_window("add", x.value, 0, window)};
  return {sums / static_cast<double>(window.sizes[rank - 1] * window.sizes[rank - 2])};
}

constexpr NamedLowering kPools[] = {
    {"max_pool2d_with_indices", max_pool},
    {"max_pool2d_with_indices_backward", max_pool_backward},
    {"avg_pool2d", average_pool},
    {"avg_pool2d_backward", average_pool_backward},
    {"_adaptive_avg_pool2d", adaptive_average_pool},
};

}  // namespace

std::span<const NamedLowering> pooling_lowerings() { return kPools; }

}  // namespace tutti::stablehlo
