#include <algorithm>
#include <limits>
#include <numeric>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

Operands same(const C& c) { return {c.tensor("self")}; }
Operands converted(const C& c) { return {c.tensor("self", c.result().dtype)}; }

Operands reshaped(const C& c) {
  if (c.result().dtype != c.type("self").dtype) c.refuse("with a view of the bits as another dtype");
  return {c.sizes.reshape(c.tensor("self"), c.type("self"), c.result())};
}

Operands unsqueeze(const C& c) { return {c.graph.unsqueeze(c.tensor("self"), {c.axis("dim", c.rank("self") + 1)})}; }

std::vector<int64_t> all_axes(size_t rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// Those of the axes, or of all, that have one element.
Operands squeeze(const C& c) {
  const ValueType& type = c.type("self");
  std::vector<int64_t> axes, all = c.takes("dim") ? c.axes("dim", type.rank()) : all_axes(type.rank());
  for (const int64_t axis : all) {
    const auto size = constant_of(type.sizes[static_cast<size_t>(axis)]);
    if (!size) c.refuse("on an axis whose size is not known, where the rank would depend on it; name other axes");
    if (size == 1) axes.push_back(axis);
  }
  if (axes.empty()) return same(c);
  return {c.graph.squeeze(c.tensor("self"), axes)};
}

Operands permute(const C& c) { return {c.graph.transpose(c.tensor("self"), c.axes("dims", c.rank("self")))}; }

Operands exchanged(const C& c, int64_t one, int64_t other) {
  std::vector<int64_t> axes = all_axes(c.rank("self"));
  if (axes.empty()) return same(c);
  std::swap(axes[static_cast<size_t>(one)], axes[static_cast<size_t>(other)]);
  return {c.graph.transpose(c.tensor("self"), axes)};
}
Operands transpose(const C& c) {
  const auto axis = [&](const char* name, const char* otherwise) {
    return c.axis(c.takes(name) ? name : otherwise, std::max<size_t>(c.rank("self"), 1));
  };
  return exchanged(c, axis("dim0", "axis0"), axis("dim1", "axis1"));
}
Operands t(const C& c) {
  if (c.rank("self") < 2) return same(c);
  return exchanged(c, 0, 1);
}
Operands last_exchanged(const C& c) {
  const auto rank = static_cast<int64_t>(c.rank("self"));
  return exchanged(c, rank - 2, rank - 1);
}
Operands reversed(const C& c) {
  std::vector<int64_t> axes = all_axes(c.rank("self"));
  std::ranges::reverse(axes);
  return {c.graph.transpose(c.tensor("self"), axes)};
}

Operands movedim(const C& c) {
  const size_t rank = c.rank("self");
  const std::vector<int64_t> from = c.axes("source", rank), to = c.axes("destination", rank);
  std::vector<int64_t> axes(rank, -1), others = all_axes(rank);
  std::erase_if(others, [&](int64_t axis) { return std::ranges::count(from, axis) > 0; });
  for (size_t i = 0; i < from.size(); ++i) axes[static_cast<size_t>(to[i])] = from[i];
  auto next = others.begin();
  for (int64_t& axis : axes)
    if (axis < 0) axis = *next++;
  return {c.graph.transpose(c.tensor("self"), axes)};
}

// ONNX broadcasts to the larger of two sizes, so that an axis which stays needs only a 1.
Operands expand(const C& c) {
  const ValueType &from = c.type("self"), &to = c.result();
  const size_t added = to.rank() - from.rank();
  std::vector<Integer> sizes;
  for (size_t axis = 0; axis < to.rank(); ++axis) {
    const bool stays = axis >= added && constant_of(from.sizes[axis - added]) != 1;
    if (!stays && !to.sizes[axis]) c.refuse("to a size that follows from the inputs' in a way that ONNX is not told");
    sizes.push_back(stays ? Integer{1} : *to.sizes[axis]);
  }
  return {c.node("Expand", {c.tensor("self", widened(from.dtype)), c.sizes.list(sizes)})};
}

bool is_legacy_empty(const C& c, const ValueType& type) {
  return type.rank() == 1 && constant_of(type.sizes[0]) == 0 && c.result().rank() != 1;
}

Operands cat(const C& c) {
  const Operands parts = c.tensors("tensors");
  const auto types = c.types("tensors");
  Operands joined;
  for (size_t i = 0; i < parts.size(); ++i)
    if (!is_legacy_empty(c, *types[i])) joined.push_back(c.graph.cast(parts[i], c.result().dtype));
  return {c.node("Concat", joined, {{"axis", c.axis("dim", c.result().rank())}})};
}
Operands stack(const C& c) {
  const int64_t axis = c.axis("dim", c.result().rank());
  Operands parts;
  for (const Operand& part : c.tensors("tensors"))
    parts.push_back(c.graph.unsqueeze(c.graph.cast(part, c.result().dtype), {axis}));
  return {c.node("Concat", parts, {{"axis", axis}})};
}

Operands split(const C& c) {
  const int64_t axis = c.axis("dim", c.rank("self"));
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < c.num_results(); ++i) {
    const auto length = constant_of(c.result(i).sizes[static_cast<size_t>(axis)]);
    if (!length) c.refuse("along an axis whose size is not known");
    lengths.push_back(*length);
  }
  if (lengths.size() == 1) return same(c);
  return c.graph.node("Split", {c.tensor("self"), c.graph.integers(lengths)}, {{"axis", axis}}, lengths.size());
}

Operand item(const C& c, int64_t axis, const Operand& index) {
  return c.node("Gather", {c.tensor("self"), index}, {{"axis", axis}});
}
Operands unbind(const C& c) {
  const int64_t axis = c.axis("dim", c.rank("self"));
  Operands items;
  for (size_t i = 0; i < c.num_results(); ++i)
    items.push_back(item(c, axis, c.graph.integer(static_cast<int64_t>(i), at::kLong)));
  return items;
}
Operands select(const C& c) { return {item(c, c.axis("dim", c.rank("self")), c.operand("index", at::kLong))}; }

Operand bound(const C& c, const char* name, int64_t otherwise) {
  return c.has(name) ? c.sizes.one(c.symbolic(name)[0]) : c.graph.integers({otherwise});
}
Operands slice(const C& c) {
  const Operand begin = bound(c, "start", 0), end = bound(c, "end", kEnd);
  return {c.graph.slice(c.tensor("self"), c.axis("dim", c.rank("self")), begin, end,
                        c.has("step") ? c.integer("step") : 1)};
}
Operands narrow(const C& c) {
  Integer begin = c.symbolic("start")[0], end = c.symbolic("length")[0];
  const bool is_from_end = begin.terms.empty() && begin.constant < 0;
  if (is_from_end && !end.terms.empty()) c.refuse("from the end, with a length that depends on sizes");
  end.constant += begin.constant;
  end.terms.insert(end.terms.end(), begin.terms.begin(), begin.terms.end());
  if (is_from_end && end.constant == 0) end.constant = kEnd;
  return {c.graph.slice(c.tensor("self"), c.axis("dim", c.rank("self")), c.sizes.one(begin), c.sizes.one(end))};
}

Operands flip(const C& c) {
  Operand x = c.tensor("self");
  const Operand last = c.graph.integers({-1}), before_first = c.graph.integers({std::numeric_limits<int64_t>::min()});
  for (const int64_t axis : c.axes("dims", c.rank("self"))) x = c.graph.slice(x, axis, last, before_first, -1);
  return {x};
}

Operands repeat(const C& c) {
  Operand x = c.tensor("self");
  const size_t added = c.result().rank() - c.rank("self");
  std::vector<int64_t> axes = all_axes(added);
  if (added > 0) x = c.graph.unsqueeze(x, axes);
  std::vector<Integer> repeats = c.symbolic(c.takes("repeats") ? "repeats" : "dims");
  repeats.insert(repeats.begin(), c.result().rank() - repeats.size(), Integer{1});  // tile() may name fewer axes
  return {c.node("Tile", {x, c.sizes.list(repeats)})};
}

// Each element several times: along a new axis behind its own, which is then drawn into it.
Operands repeat_interleave(const C& c) {
  if (!c.takes("self") || c.rank("self") == 0) c.refuse("of numbers of repeats that are a tensor");
  if (!c.has("dim")) c.refuse("without 'dim'");
  const int64_t axis = c.axis("dim", c.rank("self"));
  std::vector<int64_t> sizes(c.rank("self") + 1, 1);
  sizes[static_cast<size_t>(axis) + 1] = c.integer("repeats");
  const Operand spread = c.node("Expand", {c.graph.unsqueeze(c.tensor("self"), {axis + 1}), c.graph.integers(sizes)});
  ValueType from = c.type("self");
  from.sizes.insert(from.sizes.begin() + axis + 1, Integer{c.integer("repeats")});
  return {c.sizes.reshape(spread, from, c.result())};
}

// Of the last axes, from the last one on, in pairs; ONNX has all that is before, then all that is behind.
Operand sides_of(const C& c, const char* name) {
  const std::vector<Integer>& pairs = c.symbolic(name);
  const size_t rank = c.rank("self");
  std::vector<Integer> sides(2 * rank, Integer{0});
  for (size_t i = 0; 2 * i < pairs.size(); ++i) {
    sides[rank - 1 - i] = pairs[2 * i];
    sides[2 * rank - 1 - i] = pairs[2 * i + 1];
  }
  return c.sizes.list(sides);
}
Operands pad_with_own(const C& c, const char* mode, const char* sides) {
  return {c.node("Pad", {c.tensor("self"), sides_of(c, sides)}, {{"mode", std::string(mode)}})};
}
Operands pad(const C& c) {
  const std::string mode = c.has("mode") ? c.text("mode") : "constant";
  if (mode == "circular") c.refuse("in the mode 'circular', which ONNX does not know before its set 19");
  if (mode == "reflect") return pad_with_own(c, "reflect", "pad");
  if (mode == "replicate") return pad_with_own(c, "edge", "pad");
  const Operand x = c.tensor("self");
  const Operand value = c.has("value") ? c.operand("value", x.dtype) : c.number_like(0, x);
  return {c.node("Pad", {x, sides_of(c, "pad"), value})};
}

Operands triangle(const C& c, bool upper) {
  const Operand x = c.tensor("self", c.type("self").dtype == at::kBool ? at::kLong : c.type("self").dtype);
  const int64_t diagonal = c.has("diagonal") ? c.integer("diagonal") : 0;
  return {c.node("Trilu", {x, c.graph.integer(diagonal, at::kLong)}, {{"upper", int64_t{upper}}})};
}

Operands pixel_shuffle(const C& c) {
  if (c.rank("self") != 4) c.refuse("of a tensor that is no batch of images");
  return {c.node("DepthToSpace", {c.tensor("self")},
                 {{"blocksize", c.integer("upscale_factor")}, {"mode", std::string("CRD")}})};
}

constexpr NamedLowering kShapes[] = {
    {"detach", same},
    {"alias", same},
    {"clone", same},
    {"contiguous", same},
    {"to", converted},
    {"type_as", converted},
    {"view", reshaped},
    {"view_as", reshaped},
    {"reshape", reshaped},
    {"reshape_as", reshaped},
    {"_unsafe_view", reshaped},
    {"_reshape_alias", reshaped},
    {"flatten", reshaped},
    {"unflatten", reshaped},
    {"ravel", reshaped},
    {"unsqueeze", unsqueeze},
    {"squeeze", squeeze},
    {"permute", permute},
    {"transpose", transpose},
    {"swapaxes", transpose},
    {"swapdims", transpose},
    {"t", t},
    {"numpy_T", reversed},
    {"mT", last_exchanged},
    {"movedim", movedim},
    {"moveaxis", movedim},
    {"expand", expand},
    {"expand_as", expand},
    {"broadcast_to", expand},
    {"cat", cat},
    {"concat", cat},
    {"concatenate", cat},
    {"stack", stack},
    {"split", split},
    {"split_with_sizes", split},
    {"tensor_split", split},
    {"chunk", split},
    {"unbind", unbind},
    {"select", select},
    {"slice", slice},
    {"narrow", narrow},
    {"flip", flip},
    {"repeat", repeat},
    {"tile", repeat},
    {"repeat_interleave", repeat_interleave},
    {"pad", pad},
    {"constant_pad_nd", pad},
    {"reflection_pad1d", [](const C& c) { return pad_with_own(c, "reflect", "padding"); }},
    {"reflection_pad2d", [](const C& c) { return pad_with_own(c, "reflect", "padding"); }},
    {"reflection_pad3d", [](const C& c) { return pad_with_own(c, "reflect", "padding"); }},
    {"replication_pad1d", [](const C& c) { return pad_with_own(c, "edge", "padding"); }},
    {"replication_pad2d", [](const C& c) { return pad_with_own(c, "edge", "padding"); }},
    {"replication_pad3d", [](const C& c) { return pad_with_own(c, "edge", "padding"); }},
    {"tril", [](const C& c) { return triangle(c, false); }},
    {"triu", [](const C& c) { return triangle(c, true); }},
    {"pixel_shuffle", pixel_shuffle},
};

}  // namespace

std::span<const NamedLowering> shape_lowerings() { return kShapes; }

}  // namespace tutti::saved_model::onnx
