#include "tutti/stablehlo/memory.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::stablehlo {
namespace {

// A view as a block of the buffer: elements that lie in a row are one of the flat buffer; else that is folded to as
// many axes as the view has: with strides 6 and 2, 24 elements are [4, 3, 2]. Axes of size 1 and repeated ones are left
// out; the others are in the order of their strides.
struct Block {
  bool exists = false;
  Dims order;              // the view's axes that are here, from the largest stride on
  Dims extents, from, to;  // of the folded buffer, with one axis more where the smallest stride is not 1
  int64_t padded = 1;      // elements of the folded buffer, which may be more than the buffer's

  bool is_all(int64_t elements) const {
    return exists && padded == elements && to == extents &&
           std::all_of(from.begin(), from.end(), [](int64_t i) { return i == 0; });
  }
};

Dims sizes_in(const View& view, const Dims& order) {
  Dims sizes;
  for (const int64_t axis : order) sizes.push_back(view.dims[static_cast<size_t>(axis)]);
  return sizes;
}

Block block_of(const View& view, int64_t elements) {
  Block block;
  for (size_t axis = 0; axis < view.dims.size(); ++axis)
    if (view.dims[axis] != 1 && view.strides[axis] != 0) block.order.push_back(static_cast<int64_t>(axis));
  const auto stride = [&](int64_t axis) { return view.strides[static_cast<size_t>(axis)]; };
  std::stable_sort(block.order.begin(), block.order.end(), [&](int64_t a, int64_t b) { return stride(a) > stride(b); });
  int64_t row = 1;  // elements that lie in a row, from the smallest stride on
  for (auto axis = block.order.rbegin(); axis != block.order.rend() && stride(*axis) == row; ++axis)
    row *= view.dims[static_cast<size_t>(*axis)];
  if (row == numel(sizes_in(view, block.order)) && view.offset + row <= elements) {
    block.extents = {elements};
    block.from = {view.offset};
    block.to = {view.offset + row};
    block.padded = elements;
    block.exists = true;
    return block;
  }
  int64_t offset = view.offset, outer = 0;
  const auto add = [&](int64_t step, int64_t size) {
    if (outer && outer % step != 0) return false;
    block.extents.push_back(outer ? outer / step : (elements + step - 1) / step);
    block.from.push_back(offset / step);
    block.to.push_back(offset / step + size);
    offset %= step;
    outer = step;
    return block.to.back() <= block.extents.back();
  };
  for (const int64_t axis : block.order)
    if (!add(stride(axis), view.dims[static_cast<size_t>(axis)])) return block;
  if (outer != 1 && !add(1, 1)) return block;
  block.padded = numel(block.extents);
  block.exists = true;
  return block;
}

// Where each axis of the ordered block goes among them in the view's order, and back.
Dims ranks(const Dims& order) {
  Dims places(order.size());
  std::iota(places.begin(), places.end(), 0);
  std::sort(places.begin(), places.end(),
            [&](int64_t a, int64_t b) { return order[static_cast<size_t>(a)] < order[static_cast<size_t>(b)]; });
  return places;
}
Dims inverse(const Dims& order) {
  Dims places(order.size());
  for (size_t i = 0; i < order.size(); ++i) places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return places;
}

Dims sorted(Dims axes) {
  std::sort(axes.begin(), axes.end());
  return axes;
}

}  // namespace

View dense_view(const Type& type) {
  View view{type.dtype, type.dims, Dims(type.dims.size())};
  int64_t stride = 1;
  for (size_t axis = type.dims.size(); axis-- > 0;) {
    view.strides[axis] = stride;
    stride *= std::max<int64_t>(type.dims[axis], 1);
  }
  return view;
}

int Memory::add(int64_t bytes) {
  buffers_.push_back({bytes});
  return static_cast<int>(buffers_.size()) - 1;
}

const Value& Memory::flat(Buffer& buffer, at::ScalarType dtype) {
  const auto elements = buffer.bytes / static_cast<int64_t>(at::elementSize(dtype));
  if (!buffer.flat && !buffer.known.empty()) {
    const auto& [view, value] = buffer.known.front();
    const Dims order = block_of(view, elements).order;
    const Value folded = builder_.reshape(value, sizes_in(view, sorted(order)));
    buffer.flat = builder_.reshape(builder_.transpose(folded, inverse(ranks(order))), {elements});
  }
  if (!buffer.flat) buffer.flat = builder_.splat(0, {dtype, {elements}});
  if (buffer.flat->dtype() != dtype)
    throw Error(ErrorCode::unimplemented, str("the bits of ", at::toString(buffer.flat->dtype()), " numbers read as ",
                                              at::toString(dtype), " in a compiled program"));
  return *buffer.flat;
}

Value Memory::indices(const View& view) {
  const Type type{at::kLong, view.dims};
  Value all = builder_.splat(view.offset, type);
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    const Value along = builder_.iota(view.dims, static_cast<int64_t>(axis), at::kLong);
    all = builder_.binary("add", all, builder_.binary("multiply", along, builder_.splat(view.strides[axis], type)));
  }
  return builder_.reshape(all, {numel(view.dims), 1});
}

Value Memory::read(int number, const View& view) {
  Buffer& buffer = buffers_[static_cast<size_t>(number)];
  for (const auto& [known, value] : buffer.known)
    if (known == view) return value;
  const Type type{view.dtype, view.dims};
  if (numel(view.dims) == 0) return builder_.splat(0, type);
  const Value all = flat(buffer, view.dtype);
  const Block block = block_of(view, all.dims()[0]);
  Value value = all;
  if (block.exists) {
    if (block.padded > all.dims()[0]) value = builder_.pad(value, 0, {0}, {block.padded - all.dims()[0]}, {0});
    value = builder_.slice(builder_.reshape(value, block.extents), block.from, block.to);
    value = builder_.transpose(builder_.reshape(value, sizes_in(view, block.order)), ranks(block.order));
    value = builder_.broadcast_in_dim(value, view.dims, sorted(block.order));
  } else {
    value = builder_.reshape(builder_.take_rows(all, indices(view)), view.dims);
  }
  buffer.known.emplace_back(view, value);
  return value;
}

void Memory::write(int number, const View& view, const Value& value) {
  Buffer& buffer = buffers_[static_cast<size_t>(number)];
  if (numel(view.dims) == 0) return;
  const int64_t elements = buffer.bytes / static_cast<int64_t>(at::elementSize(view.dtype));
  const Block block = block_of(view, elements);
  if (block.is_all(elements) && numel(view.dims) == elements) {
    buffer.flat.reset();
  } else if (block.exists) {
    Value all = flat(buffer, view.dtype);
    if (block.padded > elements) all = builder_.pad(all, 0, {0}, {block.padded - elements}, {0});
    Value part = builder_.reshape(value, sizes_in(view, sorted(block.order)));
    part = builder_.transpose(part, inverse(ranks(block.order)));
    Dims sizes;
    for (size_t i = 0; i < block.from.size(); ++i) sizes.push_back(block.to[i] - block.from[i]);
    all = builder_.update_slice(builder_.reshape(all, block.extents), builder_.reshape(part, sizes), block.from);
    buffer.flat = builder_.slice(builder_.reshape(all, {block.padded}), {0}, {elements});
  } else {
    const Value all = flat(buffer, view.dtype);
    buffer.flat = builder_.put_elements(all, indices(view), builder_.reshape(value, {numel(view.dims)}));
  }
  buffer.known = {{view, value}};
}

}  // namespace tutti::stablehlo
