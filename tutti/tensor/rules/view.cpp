// Ops that move axes and elements about: views, joins and splits.
#include <algorithm>
#include <numeric>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

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
  std::string to;
  for (const int64_t axis : p.integers(1)) to += from[static_cast<size_t>(axis < 0 ? axis + p.spec(0)->rank() : axis)];
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

// expand(self, size): axes of size 1 grow whole.
bool expand(Planner& p) {
  const Spec* self = p.spec(0);
  at::DimVector sizes = p.integers(1);
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

// Whether cutting `size` in pieces and then counting in units of `unit` is the same as cutting size * unit.
bool cuts_agree(int64_t size, int64_t unit, int64_t pieces) {
  const int64_t ceil_parts = (size + pieces - 1) / pieces * unit;
  const int64_t ceil_whole = (size * unit + pieces - 1) / pieces;
  return ceil_parts == ceil_whole || (size <= pieces && ceil_parts == ceil_whole);
}

// view(self, size): within a group of axes that are merged or split only the first can stay sharded, and only where the
// pieces are the same before and after.
bool view(Planner& p) {
  const Spec* self = p.spec(0);
  if (self->numel == 0) return false;
  at::DimVector sizes = p.integers(1);
  const int64_t known = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, [](int64_t product, int64_t size) {
    return size < 0 ? product : product * size;
  });
  for (auto& size : sizes)
    if (size < 0) size = self->numel / known;
  AxisMap from = unsharded(self->rank()), to = unsharded(static_cast<int64_t>(sizes.size()));
  for (const Group& group : matching_groups(self->sizes, sizes)) {
    size_t i = group.from_begin, j = group.to_begin;
    while (i < group.from_end && self->sizes[i] == 1) ++i;
    while (j < group.to_end && sizes[j] == 1) ++j;
    if (i == group.from_end || j == group.to_end || self->axes[i] < 0) continue;
    const int64_t pieces = p.mesh().sizes[static_cast<size_t>(self->axes[i])];
    const int64_t a = self->sizes[i], b = sizes[j];
    const bool agree = a == b || (a > b && a % b == 0 && cuts_agree(b, a / b, pieces)) ||
                       (b > a && b % a == 0 && cuts_agree(a, b / a, pieces));
    if (agree) from[i] = to[j] = self->axes[i];
  }
  p.operand(0, from);
  p.result(to);
  p.local_sizes(1, to, sizes);
  return true;
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

// slice(self, dim, …), split(self, size, dim): the axis whole.
template <int kAxisArgument>
bool along(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const std::string all = whole_at(letters(rank), {p.axis(kAxisArgument, rank)});
  shard(p, {{0, all}}, {all});
  return true;
}

bool cat(Planner& p) {
  const auto specs = p.specs(0);
  int64_t rank = 0;
  for (const Spec* spec : specs) rank = std::max<int64_t>(rank, spec->rank());
  std::vector<Term> terms;
  const std::string all = whole_at(letters(rank), {p.axis(1, rank)});
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i]->rank() != rank) return false;  // the old form of an empty tensor
    terms.push_back({0, all, static_cast<int>(i)});
  }
  shard(p, terms, {all});
  return true;
}

bool stack(Planner& p) {
  const auto specs = p.specs(0);
  const int64_t rank = specs[0]->rank();
  std::vector<Term> terms;
  for (size_t i = 0; i < specs.size(); ++i) terms.push_back({0, letters(rank), static_cast<int>(i)});
  std::string to = letters(rank);
  to.insert(static_cast<size_t>(p.axis(1, rank + 1)), 1, 'Z');
  shard(p, terms, {to});
  return true;
}

// new_zeros(self, size), …: a replicated value; self only gives dtype and device.
bool new_like(Planner& p) {
  p.operand(0, p.spec(0)->axes);
  p.result(unsharded(static_cast<int64_t>(p.integers(1).size())));
  return true;
}

// reshape's form of a view; strides of the whole say nothing of a piece.
std::optional<std::vector<at::IValue>> decompose_reshape_alias(at::ArrayRef<at::IValue> arguments) {
  return std::vector<at::IValue>{arguments[0].toTensor().view(arguments[1].toDimVector())};
}

}  // namespace

void add_view_rules(RuleTable& table) {
  table["t"] = {transpose, SizeArguments::none};
  table["transpose"] = {transpose, SizeArguments::none};
  table["permute"] = {permute, SizeArguments::none};
  table["unsqueeze"] = {unsqueeze, SizeArguments::none};
  table["squeeze"] = {squeeze, SizeArguments::none};
  table["expand"] = {expand, SizeArguments::rewritten};
  table["view"] = {view, SizeArguments::rewritten};
  table["_unsafe_view"] = {view, SizeArguments::rewritten};
  table["_reshape_alias"] = {view, SizeArguments::rewritten};
  table["select"] = {select, SizeArguments::unaffected};
  table["slice"] = {along<1>, SizeArguments::unaffected};
  table["split"] = table["split_with_sizes"] = {along<2>, SizeArguments::unaffected};
  table["unbind"] = {select, SizeArguments::none};
  table["cat"] = {cat, SizeArguments::none};
  table["stack"] = {stack, SizeArguments::none};
  for (const char* name : {"new_zeros", "new_ones", "new_empty", "new_full"})
    table[name] = {new_like, SizeArguments::unaffected};
}

void add_view_decompositions(DecompositionTable& table) { table["_reshape_alias"] = decompose_reshape_alias; }

}  // namespace tutti
