#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

Results embedding(Builder& b, const Call& c) { return {b.take_rows(c.value(0), c.value(1))}; }

// Gradient, indices, rows of the table, row of padding, whether rows are divided by how often they occur.
Results embedding_backward(Builder& b, const Call& c) {
  if (c.flag(4)) throw Error(ErrorCode::unimplemented, "scale_grad_by_freq");
  const Expression index{&b, c.value(1)};
  const int64_t n = numel(index.dims()), width = c.value(0).dims().back();
  Expression rows = reshape(wide(b, c, 0), {n, width});
  const Expression flat = reshape(index, {n, 1});
  if (c.integer(3) >= 0) {
    const Expression counts = compare("NE", flat, flat.with(b.splat_like(c.scalar(3), flat.value)));
    rows = rows * convert(counts, rows.value.dtype());
  }
  const Value zeros = b.splat(0, {rows.value.dtype(), {c.integer(2), width}});
  return {b.add_rows(zeros, flat.value, rows.value)};
}

// Along an axis: it comes to the front, rows are taken, and it goes back.
Results index_select(Builder& b, const Call& c) {
  const Value& x = c.value(0);
  const int64_t axis = c.axis(1, x.rank());
  Dims order{axis}, back;
  for (const int64_t other : axes_but(x.rank(), {axis})) order.push_back(other);
  for (size_t i = 0; i < x.rank(); ++i)
    back.push_back(static_cast<int64_t>(i) < axis    ? static_cast<int64_t>(i) + 1
                   : static_cast<int64_t>(i) == axis ? 0
                                                     : static_cast<int64_t>(i));
  return {b.transpose(
      b.take_rows(b.transpose(x, order), b.reshape(c.value(2), {c.results[0].dims[static_cast<size_t>(axis)]})), back)};
}

// The last axis in another one's place: what it takes to bring `axis` there, and back again.
Dims swapped_with_last(size_t rank, int64_t axis) {
  Dims order = all_axes(rank);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  return order;
}

// Along an axis of n, each index chooses one of its row's n numbers, which the others' zeros are added to.
Results gather(Builder& b, const Call& c) {
  const Value& x = c.value(0);
  const int64_t axis = c.axis(1, x.rank());
  const Dims order = swapped_with_last(x.rank(), axis);
  const Value rows = b.transpose(x, order), index = b.transpose(c.value(2), order);
  for (size_t i = 0; i + 1 < x.rank(); ++i)
    if (rows.dims()[i] != index.dims()[i])
      throw Error(ErrorCode::unimplemented, "an index of other sizes than the input beside its axis");
  const int64_t n = rows.dims().back();
  Dims wide_dims = rows.dims();
  wide_dims.insert(wide_dims.end() - 1, index.dims().back());
  Dims rows_at = all_axes(x.rank());
  rows_at.back() = static_cast<int64_t>(x.rank());
  const Expression hot = one_hot({&b, index}, n, at::kBool);
  const Expression numbers{&b, b.broadcast_in_dim(rows, wide_dims, rows_at)};
  const Expression kept = select(hot, numbers, numbers.number(0));
  return {b.transpose(sum(kept, {static_cast<int64_t>(x.rank())}).value, order)};
}

Expression triangle(Builder& b, const Call& c, const char* direction) {
  const Expression x{&b, c.value(0)};
  const auto rank = static_cast<int64_t>(x.rank());
  const Expression row{&b, b.iota(x.dims(), rank - 2, at::kLong)}, column{&b, b.iota(x.dims(), rank - 1, at::kLong)};
  const Expression limit = row + (c.has(1) ? c.real(1) : 0);
  return select(compare(direction, column, limit), x, x.number(0));
}
Results lower_triangle(Builder& b, const Call& c) { return {triangle(b, c, "LE")}; }
Results upper_triangle(Builder& b, const Call& c) { return {triangle(b, c, "GE")}; }

constexpr NamedLowering kIndexings[] = {
    {"embedding", embedding},       {"embedding_dense_backward", embedding_backward},
    {"index_select", index_select}, {"gather", gather},
    {"tril", lower_triangle},       {"triu", upper_triangle},
};

}  // namespace

std::span<const NamedLowering> indexing_lowerings() { return kIndexings; }

}  // namespace tutti::stablehlo
