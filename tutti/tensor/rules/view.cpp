// Views: ops that show the elements of a tensor under other axes, and the backward ops of those that show a part.

#include <ATen/ops/view_as_complex.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <numeric>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using at::IValue;

bool transpose(Planner& p) {
  std::string to = letters(p.spec(0)->rank());
  const std::string from = to;
  if (to.size() > 1) {
    const bool matrix = p.num_arguments() == 1;  // t()
    const int64_t rank = p.spec(0)->rank();
    std::swap(to[matrix ? 0 : static_cast<size_t>(p.axis(1, rank))],
              to[matrix ? 1 : static_cast<size_t>(p.axis(2, rank))]);
  }
  shard(p, {{0, from}}, {to});
  return true;
}

bool permute(Planner& p) {
  const std::string from = letters(p.spec(0)->rank());
  const at::DimVector order = p.integers(1);
  if (order.size() != from.size()) throw NoShardedForm();
  std::string to;
  for (const int64_t axis : order) to += from[static_cast<size_t>(c10::maybe_wrap_dim(axis, p.spec(0)->rank()))];
  shard(p, {{0, from}}, {to});
  return true;
}

bool unsqueeze(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  std::string to = letters(rank);
  to.insert(static_cast<size_t>(p.axis(1, rank + 1)), 1, 'Z');
  shard(p, {{0, letters(rank)}}, {to});
  return true;
}

// squeeze(self), squeeze(self, dim), squeeze(self, dims): an axis of size 1 has nothing to shard.
bool squeeze(Planner& p) {
  const Spec* self = p.spec(0);
  at::DimVector named = p.num_arguments() > 1 ? p.integers(1) : at::DimVector();
  std::string from = letters(self->rank()), to;
  for (int64_t axis = 0; axis < self->rank(); ++axis) {
    const bool is_named = p.num_arguments() == 1 || std::any_of(named.begin(), named.end(), [&](int64_t name) {
                            return (name < 0 ? name + self->rank() : name) == axis;
                          });
    const bool goes = is_named && self->sizes[static_cast<size_t>(axis)] == 1;
    if (goes)
      from = whole_at(from, {axis});
    else
      to += from[static_cast<size_t>(axis)];
  }
  shard(p, {{0, from}}, {to});
  return true;
}

// squeeze by names of axes of size 1: a piece of size 1 is no such axis.
std::optional<std::vector<IValue>> decompose_squeeze(at::ArrayRef<IValue> arguments) {
  const Tensor& self = arguments[0].toTensor();
  at::DimVector named, ones;
  if (arguments.size() == 1)
    for (int64_t axis = 0; axis < self.dim(); ++axis) named.push_back(axis);
  else
    named = arguments[1].isInt() ? at::DimVector{arguments[1].toInt()} : arguments[1].toDimVector();
  for (const int64_t axis : named)
    if (self.dim() > 0 && self.size(axis) == 1) ones.push_back(axis);
  if (arguments.size() > 1 && ones.size() == named.size()) return {};
  return std::vector<IValue>{self.squeeze(ones)};
}

std::optional<std::vector<IValue>> decompose_squeeze_copy(at::ArrayRef<IValue> arguments) {
  auto squeezed = decompose_squeeze(arguments);
  if (squeezed) squeezed->front() = squeezed->front().toTensor().clone(at::MemoryFormat::Contiguous);
  return squeezed;
}

// view_copy(self, dtype), as LibTorch composes it.
std::optional<std::vector<IValue>> decompose_view_copy(at::ArrayRef<IValue> arguments) {
  if (!arguments[1].isInt()) return {};
  const Tensor view = arguments[0].toTensor().view(arguments[1].toScalarType());
  return std::vector<IValue>{view.clone(at::MemoryFormat::Contiguous)};
}

// view_as_complex_copy(self): the strides of the whole say whether there is such a view.
std::optional<std::vector<IValue>> decompose_complex_copy(at::ArrayRef<IValue> arguments) {
  return std::vector<IValue>{at::view_as_complex(arguments[0].toTensor()).clone(at::MemoryFormat::Contiguous)};
}

// expand(self, size): axes of size 1 grow whole.
bool expand(Planner& p) {
  const Spec* self = p.spec(0);
  at::DimVector sizes = p.integers(1);
  if (sizes.size() < self->sizes.size()) throw NoShardedForm();
  const size_t lead = sizes.size() - self->sizes.size();
  std::string from = letters(self->rank()), to = letters(static_cast<int64_t>(lead), 'Q');
  for (size_t axis = 0; axis < self->sizes.size(); ++axis) {
    int64_t& size = sizes[lead + axis];
    if (size == -1) size = self->sizes[axis];
    if (size != self->sizes[axis]) from = whole_at(from, {static_cast<int64_t>(axis)});
    to += from[axis];
  }
  const AxisMap axes = shard(p, {{0, from}}, {to})[0];
  p.local_sizes(1, axes, sizes);
  return true;
}

// A run of axes before and after a view, with equal products.
struct Group {
  size_t from_begin, from_end, to_begin, to_end;
};

std::vector<Group> matching_groups(at::IntArrayRef from, at::IntArrayRef to) {
  std::vector<Group> groups;
  for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    Group group{i, i, j, j};
    int64_t a = 1, b = 1;
    do {
      if (j >= to.size() || (i < from.size() && a <= b))
        a *= from[i++];
      else
        b *= to[j++];
    } while (a != b && (i < from.size() || j < to.size()));
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

// Whether cutting an axis of `a` and one of `b` elements, where one is a multiple of the other, cuts at the same
// places.
bool cuts_agree(int64_t a, int64_t b, int64_t pieces) {
  const int64_t small = std::min(a, b), unit = std::max(a, b) / small;
  if (small * unit != std::max(a, b)) return false;
  return (small + pieces - 1) / pieces * unit == (small * unit + pieces - 1) / pieces;
}

// The sizes that view() is given, with the one that it leaves open.
at::DimVector view_sizes(const Planner& p, int64_t numel) {
  at::DimVector sizes = p.integers(1);
  const int64_t known = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, [](int64_t product, int64_t size) {
    return size < 0 ? product : product * size;
  });
  for (auto& size : sizes)
    if (size < 0) size = known ? numel / known : 0;
  return sizes;
}

// view(self, size): within a group of axes that are merged or split only the first can stay sharded, and only where the
// pieces are the same before and after. view(self, dtype): the last axis may get another size.
bool view(Planner& p) {
  const Spec* self = p.spec(0);
  if (p.is_integer(1)) {
    const std::string all = self->rank() ? whole_at(letters(self->rank()), {-1}) : "";
    return shard(p, {{0, all}}, {all}), true;
  }
  const at::DimVector sizes = view_sizes(p, self->numel);
  if (c10::multiply_integers(sizes) != self->numel) throw NoShardedForm();
  AxisMap from = unsharded(self->rank()), to = unsharded(static_cast<int64_t>(sizes.size()));
  for (const Group& group : self->numel ? matching_groups(self->sizes, sizes) : std::vector<Group>()) {
    size_t i = group.from_begin, j = group.to_begin;
    while (i < group.from_end && self->sizes[i] == 1) ++i;
    while (j < group.to_end && sizes[j] == 1) ++j;
    if (i == group.from_end || j == group.to_end || self->axes[i] < 0) continue;
    if (cuts_agree(self->sizes[i], sizes[j], p.mesh().sizes[static_cast<size_t>(self->axes[i])]))
      from[i] = to[j] = self->axes[i];
  }
  if (self->sizes == sizes) from = to = self->axes;
  p.operand(0, from);
  p.result(to, sizes);
  p.local_sizes(1, to, sizes);
  return true;
}

// reshape's form of a view; strides of the whole say nothing of a piece.
std::optional<std::vector<IValue>> decompose_reshape_alias(at::ArrayRef<IValue> arguments) {
  return std::vector<IValue>{arguments[0].toTensor().view(arguments[1].toDimVector())};
}

// Complex numbers as pairs of real ones, and back: the axis of the pair is whole.
bool view_as_real(Planner& p) {
  const std::string all = letters(p.spec(0)->rank());
  return shard(p, {{0, all}}, {all + "Z"}), true;
}
bool view_as_complex(Planner& p) {
  const std::string all = letters(p.spec(0)->rank() - 1);
  return shard(p, {{0, all + "Z"}}, {all}), true;
}

// select(self, dim, index), unbind(self, dim): the axis goes.
bool select(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const int axis = p.axis(1, rank);
  const std::string from = whole_at(letters(rank), {axis});
  std::string to = from;
  to.erase(static_cast<size_t>(axis), 1);
  shard(p, {{0, from}}, {to});
  return true;
}

// select_backward(grad, input_sizes, dim, index)
bool select_backward(Planner& p) {
  const at::DimVector sizes = p.integers(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  std::string to = whole_at(letters(rank), {p.axis(2, rank)}), from = to;
  from.erase(static_cast<size_t>(p.axis(2, rank)), 1);
  p.local_sizes(1, shard(p, {{0, from}}, {to})[0], sizes);
  return true;
}

// slice(self, dim, start, end, step): an axis that is sliced whole stays sharded.
bool slice(Planner& p) {
  const Spec* self = p.spec(0);
  const int axis = p.axis(1, self->rank());
  const int64_t size = self->sizes[static_cast<size_t>(axis)];
  std::string all = letters(self->rank());
  const SliceRange range(p, 2, size);
  if (!slices_in_place(p, range, size, self->axes[static_cast<size_t>(axis)])) all = whole_at(all, {axis});
  shard(p, {{0, all}}, {all});
  p.result_size(0, axis, range.length());
  return true;
}

// slice_backward(grad, input_sizes, dim, start, end, step)
bool slice_backward(Planner& p) {
  const at::DimVector sizes = p.integers(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto axis = static_cast<size_t>(p.axis(2, rank));
  std::string all = letters(rank);
  if (!slices_in_place(p, SliceRange(p, 3, sizes[axis]), sizes[axis], p.spec(0)->axes[axis]))
    all = whole_at(all, {static_cast<int64_t>(axis)});
  p.local_sizes(1, shard(p, {{0, all}}, {all})[0], sizes);
  p.result_size(0, static_cast<int>(axis), sizes[axis]);
  return true;
}

// split(self, size, dim): the axis whole.
bool split(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const std::string all = whole_at(letters(rank), {p.axis(2, rank)});
  return shard(p, {{0, all}}, {all}), true;
}

// The letters of a tensor, two axes whole, and of its diagonals along them, which come last.
struct DiagonalLetters {
  std::string all, diagonals;
  DiagonalLetters(int64_t rank, int a, int b) : all(whole_at(letters(rank), {a, b})), diagonals(all) {
    diagonals.erase(static_cast<size_t>(std::max(a, b)), 1);
    diagonals.erase(static_cast<size_t>(std::min(a, b)), 1);
    diagonals += 'Z';
  }
};

// diagonal(self, offset, dim1, dim2)
bool diagonal(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const DiagonalLetters l(rank, p.axis(2, rank), p.axis(3, rank));
  return shard(p, {{0, l.all}}, {l.diagonals}), true;
}

// diagonal_backward(grad, input_sizes, offset, dim1, dim2)
bool diagonal_backward(Planner& p) {
  const at::DimVector sizes = p.integers(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  const DiagonalLetters l(rank, p.axis(3, rank), p.axis(4, rank));
  p.local_sizes(1, shard(p, {{0, l.diagonals}}, {l.all})[0], sizes);
  return true;
}

// diag_embed(self, offset, dim1, dim2): the last axis becomes the diagonal of two new ones.
bool diag_embed(Planner& p) {
  const int64_t rank = p.spec(0)->rank() + 1;
  const DiagonalLetters l(rank, p.axis(2, rank), p.axis(3, rank));
  return shard(p, {{0, l.diagonals}}, {l.all}), true;
}

// unfold(self, dimension, size, step): windows along an axis, whose elements come last.
bool unfold(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = whole_at(letters(rank), {p.axis(1, rank)});
  return shard(p, {{0, all}}, {all + "Z"}), true;
}

// unfold_backward(grad, input_sizes, dim, size, step)
bool unfold_backward(Planner& p) {
  const at::DimVector sizes = p.integers(1);
  const auto rank = static_cast<int64_t>(sizes.size());
  if (rank == 0) return false;
  const std::string all = whole_at(letters(rank), {p.axis(2, rank)});
  p.local_sizes(1, shard(p, {{0, all + "Z"}}, {all})[0], sizes);
  return true;
}

}  // namespace

void add_view_rules(RuleTable& table) {
  constexpr auto kNone = SizeArguments::none, kUnaffected = SizeArguments::unaffected,
                 kRewritten = SizeArguments::rewritten;
  table["t"] = table["transpose"] = {transpose, kNone};
  table["permute"] = {permute, kNone};
  table["unsqueeze"] = {unsqueeze, kNone};
  table["squeeze"] = {squeeze, kNone};
  table["expand"] = {expand, kRewritten};
  table["view"] = table["_unsafe_view"] = table["_reshape_alias"] = {view, kRewritten};
  table["view_as_real"] = {view_as_real, kNone};
  table["view_as_complex"] = {view_as_complex, kNone};
  table["select"] = {select, kUnaffected};
  table["unbind"] = {select, kNone};
  table["select_backward"] = {select_backward, kRewritten};
  table["slice"] = {slice, kUnaffected};
  table["slice_backward"] = {slice_backward, kRewritten};
  for (const char* name : {"split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"})
    table[name] = {split, kUnaffected};
  table["diagonal"] = {diagonal, kNone};
  table["diagonal_backward"] = {diagonal_backward, kRewritten};
  table["diag_embed"] = {diag_embed, kNone};
  table["unfold"] = {unfold, kNone};
  table["unfold_backward"] = {unfold_backward, kRewritten};
  for (const char* name :
       {"t", "transpose", "permute", "unsqueeze", "squeeze", "expand", "view", "view_as_real", "view_as_complex",
        "select", "unbind", "slice", "split", "split_with_sizes", "diagonal", "unfold"})
    table[std::string(name) + "_copy"] = table.at(name);
}

void add_view_decompositions(DecompositionTable& table) {
  table["_reshape_alias"] = decompose_reshape_alias;
  table["squeeze"] = decompose_squeeze;
  table["squeeze_copy"] = decompose_squeeze_copy;
  table["view_as_complex_copy"] = decompose_complex_copy;
  table["view_copy"] = decompose_view_copy;
}

}  // namespace tutti
