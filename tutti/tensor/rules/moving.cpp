// Ops that put elements elsewhere: joins, paddings, repetitions, reversals, triangles, and parts put back.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using torch::jit::Stack;

// cat(tensors, dim): the axis whole.
bool cat(Planner& p) {
  const auto specs = p.specs(0);
  int64_t rank = 0;
  if (std::find(specs.begin(), specs.end(), nullptr) != specs.end()) throw NoShardedForm();
  for (const Spec* spec : specs) rank = std::max<int64_t>(rank, spec->rank());
  std::vector<Term> terms;
  const auto is_old_empty = [](const Spec* spec) { return spec->rank() == 1 && spec->numel == 0; };  // joins any rank
  const bool looks_at_axis = !std::all_of(specs.begin(), specs.end(), is_old_empty);
  const std::string all = looks_at_axis ? whole_at(letters(rank), {p.axis(1, rank)}) : "Z";
  for (size_t i = 0; i < specs.size(); ++i)
    terms.push_back({0, specs[i]->rank() != rank && is_old_empty(specs[i]) ? "Z" : all, static_cast<int>(i)});
  shard(p, terms, {all});
  return true;
}

// stack(tensors, dim)
bool stack(Planner& p) {
  const auto specs = p.specs(0);
  if (std::find(specs.begin(), specs.end(), nullptr) != specs.end()) throw NoShardedForm();
  const int64_t rank = specs[0]->rank();
  std::vector<Term> terms;
  for (size_t i = 0; i < specs.size(); ++i) terms.push_back({0, letters(rank), static_cast<int>(i)});
  std::string to = letters(rank);
  to.insert(static_cast<size_t>(p.axis(1, rank + 1)), 1, 'Z');
  shard(p, terms, {to});
  return true;
}

// constant_pad_nd(self, pad, value): a pair for each axis, from the last; an axis that gets nothing stays.
bool constant_pad(Planner& p) {
  const at::DimVector pad = p.integers(1);
  std::string all = letters(p.spec(0)->rank());
  if (pad.size() > 2 * all.size()) throw NoShardedForm();
  for (size_t pair = 0; 2 * pair + 1 < pad.size(); ++pair)
    if (pad[2 * pair] != 0 || pad[2 * pair + 1] != 0) all = whole_at(all, {-1 - static_cast<int64_t>(pair)});
  return shard(p, {{0, all}}, {all}), true;
}

// reflection_pad and replication_pad(self, padding), and their backward ops (grad, self, padding).
template <int kSpatial>
bool mirrored_pad(Planner& p) {
  const int64_t leading = p.spec(0)->rank() - kSpatial;
  if (leading < 1) throw NoShardedForm();
  const std::string all = letters(leading) + letters(kSpatial, 'P');
  std::vector<Term> terms{{0, all}};
  if (p.spec(1)) terms.push_back({1, all});
  std::vector<std::string> results{all};
  whole_where_empty(p, all.substr(static_cast<size_t>(leading) - 1, 1), terms, results);  // the channels
  return shard(p, terms, results), true;
}

// Leaves of what an op returns for a whole axis, the one that argument kDims names, the call's part.
template <int kDims>
void keep_part(const c10::OperatorHandle& op, Stack& call, const AxisPiece& part) {
  const int64_t axis = call[kDims].toDimVector()[0];
  op.callBoxed(call);
  call[0] = call[0].toTensor().narrow(axis, part.begin, part.length).clone();
}

// An op that reorders the elements along the axes that argument kDims names; all of them for none. A single axis is
// gathered, and the result cut as the operand was.
template <int kDims>
bool reorder(Planner& p) {
  const Spec* self = p.spec(0);
  const at::DimVector dims = p.integers(kDims);
  const auto is_axis = [rank = self->rank()](int64_t dim) { return -rank <= dim && dim < rank; };
  if (self->numel == 0 && !std::all_of(dims.begin(), dims.end(), is_axis))
    return false;  // roll() looks at no axis then
  const std::string all = letters(self->rank(), dims.empty() ? 'A' : 'a');
  const std::string moved = whole_at(all, dims);
  if (dims.size() != 1) return shard(p, {{0, moved}}, {moved}), true;
  const auto axis = static_cast<size_t>(c10::maybe_wrap_dim(dims[0], self->rank()));
  AxisMap whole = self->axes;
  whole[axis] = -1;
  p.operand(0, whole);
  p.result(self->axes, self->sizes);
  p.local_call(keep_part<kDims>, self->axes[axis], self->sizes[axis]);
  return true;
}

// rot90(self, k, dims)
bool rot90(Planner& p) {
  const std::string all = whole_at(letters(p.spec(0)->rank()), p.integers(2));
  return shard(p, {{0, all}}, {all}), true;
}

// repeat(self, repeats): an axis that is not repeated stays.
bool repeat(Planner& p) {
  const at::DimVector repeats = p.integers(1);
  std::string all = letters(p.spec(0)->rank());
  if (repeats.size() < all.size()) throw NoShardedForm();
  const size_t lead = repeats.size() - all.size();
  for (size_t axis = 0; axis < all.size(); ++axis)
    if (repeats[lead + axis] != 1) all = whole_at(all, {static_cast<int64_t>(axis)});
  return shard(p, {{0, all}}, {letters(static_cast<int64_t>(lead), 'Q') + all}), true;
}

// tril and triu(self, diagonal) of a part of the rows, or of the columns.
void triangle_of_rows(const c10::OperatorHandle& op, Stack& call, const AxisPiece& rows) {
  call[1] = call[1].toInt() + rows.begin;
  op.callBoxed(call);
}
void triangle_of_columns(const c10::OperatorHandle& op, Stack& call, const AxisPiece& columns) {
  call[1] = call[1].toInt() - columns.begin;
  op.callBoxed(call);
}

bool triangle(Planner& p) {
  const int rank = p.spec(0)->rank();
  if (rank < 2) throw NoShardedForm();
  const bool by_rows = p.spec(0)->axes[static_cast<size_t>(rank - 2)] >= 0;
  const std::string all = whole_at(letters(rank), {by_rows ? rank - 1 : rank - 2});
  shard(p, {{0, all}}, {all});
  p.local_call(by_rows ? triangle_of_rows : triangle_of_columns, 0, by_rows ? rank - 2 : rank - 1);
  return true;
}

// select_scatter(self, src, dim, index)
bool select_scatter(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const std::string all = whole_at(letters(rank), {p.axis(2, rank)});
  std::string part = all;
  part.erase(static_cast<size_t>(p.axis(2, rank)), 1);
  return shard(p, {{0, all}, {1, part}}, {all}), true;
}

// slice_scatter(self, src, dim, start, end, step)
bool slice_scatter(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const std::string all = whole_at(letters(rank), {p.axis(2, rank)});
  return shard(p, {{0, all}, {1, all}}, {all}), true;
}

// pixel_shuffle and pixel_unshuffle(self [*, c, h, w], factor)
bool pixels(Planner& p) {
  const std::string batch = letters(p.spec(0)->rank() - 3);
  std::vector<Term> terms{{0, batch + "XYZ"}};
  std::vector<std::string> results{batch + "XYZ"};
  whole_where_empty(p, batch, terms, results);  // of which LibTorch returns other sizes
  return shard(p, terms, results), true;
}

// channel_shuffle(self [n, c, *], groups)
bool channel_shuffle(Planner& p) {
  const std::string all = whole_at(letters(p.spec(0)->rank()), {1});
  return shard(p, {{0, all}}, {all}), true;
}

}  // namespace

void add_moving_rules(RuleTable& table) {
  constexpr auto kNone = SizeArguments::none, kUnaffected = SizeArguments::unaffected;
  table["cat"] = {cat, kNone};
  table["stack"] = {stack, kNone};
  table["constant_pad_nd"] = {constant_pad, kUnaffected};
  for (const char* name :
       {"reflection_pad1d", "reflection_pad1d_backward", "replication_pad1d", "replication_pad1d_backward"})
    table[name] = {mirrored_pad<1>, kUnaffected};
  for (const char* name :
       {"reflection_pad2d", "reflection_pad2d_backward", "replication_pad2d", "replication_pad2d_backward"})
    table[name] = {mirrored_pad<2>, kUnaffected};
  for (const char* name :
       {"reflection_pad3d", "reflection_pad3d_backward", "replication_pad3d", "replication_pad3d_backward"})
    table[name] = {mirrored_pad<3>, kUnaffected};
  table["flip"] = {reorder<1>, kNone};
  table["roll"] = {reorder<2>, kUnaffected};
  table["rot90"] = {rot90, kNone};
  table["repeat"] = {repeat, kUnaffected};
  for (const char* name : {"tril", "tril_", "triu", "triu_"}) table[name] = {triangle, SizeArguments::rewritten};
  table["select_scatter"] = {select_scatter, kUnaffected};
  table["slice_scatter"] = {slice_scatter, kUnaffected};
  table["pixel_shuffle"] = table["pixel_unshuffle"] = {pixels, kNone};
  table["channel_shuffle"] = table["native_channel_shuffle"] = {channel_shuffle, kUnaffected};
}

}  // namespace tutti
