// Ops that pick elements by indices, or put them there. The axes that are indexed are whole; all others stay.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using torch::jit::Stack;

// Letters of a tensor and of indices that stand for places along one of its axes: 'z' for the indices' own axis.
struct PlaceLetters {
  std::string self, index;
  // An axis along which the indices are shorter than the tensor is whole.
  PlaceLetters(const Spec& tensor, const Spec& indices, int axis) : self(letters(tensor.rank())) {
    if (indices.rank() != tensor.rank()) throw NoShardedForm();
    for (int other = 0; other < tensor.rank(); ++other)
      if (other == axis || tensor.sizes[static_cast<size_t>(other)] != indices.sizes[static_cast<size_t>(other)])
        self = whole_at(self, {other});
    index = self;
    index[static_cast<size_t>(axis)] = 'z';
  }
};

// Adds to the tensor that the op is given in the first part, and to zeros in the others: their sum is the result.
void add_to_tensor_once(const c10::OperatorHandle& op, Stack& call, const AxisPiece& part) {
  if (part.begin > 0) call[0] = at::zeros_like(call[0].toTensor());
  op.callBoxed(call);
}

// Whether the op may add in parts: in place only where all calls write one buffer.
bool adds_parts(const Planner& p) { return !p.info().writes[0] || p.mesh().mesh.shares_memory(); }

// In the calls on the pieces of an axis of an operand, all that they add is to be added to the tensor once.
void add_source_once(Planner& p, int argument, int item, size_t axis) {
  if (!p.parts_of_first_result() || p.info().writes[0]) return;
  const Spec* spec = item < 0 ? p.spec(argument) : p.specs(argument)[static_cast<size_t>(item)];
  p.local_call(add_to_tensor_once, p.axes_of(argument, item)[axis], spec->sizes[axis]);
}

// gather(self, dim, index, sparse_grad)
bool gather_elements(Planner& p) {
  const Spec *self = p.spec(0), *index = p.spec(2);
  if (self->rank() == 0 || index->rank() == 0) return false;
  const PlaceLetters l(*self, *index, p.axis(1, self->rank()));
  return shard(p, {{0, l.self}, {2, l.index}}, {l.index}), true;
}

// scatter, scatter_reduce, scatter_add(self, dim, index, src or value, …): the last may take the indices in parts.
template <bool kAdds>
bool scatter(Planner& p) {
  const Spec *self = p.spec(0), *index = p.spec(2), *source = p.spec(3);
  if (self->rank() == 0 || index->rank() == 0 || (source && source->rank() == 0)) return false;
  const int axis = p.axis(1, self->rank());
  PlaceLetters l(*self, *index, axis);
  const bool in_parts = kAdds && adds_parts(p);
  if (source && source->rank() != index->rank()) throw NoShardedForm();
  for (int i = 0; i < self->rank(); ++i)
    if ((i == axis && !in_parts) ||
        (source && source->sizes[static_cast<size_t>(i)] != index->sizes[static_cast<size_t>(i)])) {
      l.index = whole_at(l.index, {i});
      l.self = whole_at(l.self, {i});
    }
  shard(p, {{0, l.self}, {2, l.index}, {3, l.index}}, {l.self});
  add_source_once(p, 2, -1, static_cast<size_t>(axis));
  return true;
}

// index_select(self, dim, index)
bool index_select(Planner& p) {
  const Spec *self = p.spec(0), *index = p.spec(2);
  if (self->rank() == 0) return false;
  const int axis = p.axis(1, self->rank());
  const std::string all = whole_at(letters(self->rank()), {axis});
  std::string result = all;
  result[static_cast<size_t>(axis)] = index->rank() ? 'z' : 'Z';
  return shard(p, {{0, all}, {2, index->rank() ? "z" : ""}}, {result}), true;
}

// index_add, index_copy, index_reduce(self, dim, index, source, …), index_fill(self, dim, index, value)
template <bool kAdds>
bool index_write(Planner& p) {
  const Spec *self = p.spec(0), *index = p.spec(2), *source = p.spec(3);
  if (self->rank() == 0) return false;
  const int axis = p.axis(1, self->rank());
  const std::string all = whole_at(letters(self->rank()), {axis});
  std::string added = all;
  const char place = kAdds && adds_parts(p) && index->rank() ? 'z' : 'Z';
  added[static_cast<size_t>(axis)] = place;
  if (source && source->rank() != self->rank()) added = "";  // a number
  shard(p, {{0, all}, {2, std::string(static_cast<size_t>(index->rank()), place)}, {3, added}}, {all});
  if (place == 'z') add_source_once(p, 2, -1, 0);
  return true;
}

// Whether a piece has one element for each place along an axis, where the whole has more.
bool cuts_to_single_elements(const Spec& spec, int axis) {
  int64_t whole = 1, piece = 1;
  for (int other = 0; other < spec.rank(); ++other) {
    if (other == axis) continue;
    whole *= spec.sizes[static_cast<size_t>(other)];
    int64_t shortest = spec.length(0, other);
    for (int component = 1; component < spec.num_components; ++component)
      if (const int64_t length = spec.length(component, other); length > 0) shortest = std::min(shortest, length);
    piece *= shortest;
  }
  return whole > 1 && piece == 1;
}

// LibTorch's index_reduce of 16-bit numbers takes no places of one element.
bool index_reduce(Planner& p) {
  const Spec *self = p.spec(0), *source = p.spec(3);
  const auto takes = [&](const Spec& spec) { return !cuts_to_single_elements(spec, p.axis(1, self->rank())); };
  if (self->rank() > 0 && !(takes(*self) && (source->rank() != self->rank() || takes(*source)))) return false;
  return index_write<false>(p);
}

// What x[i, j, …] with tensors among the indices does to the axes of x: those that a tensor indexes are whole; in their
// place, or in front where they are not neighbours, come the axes 'p', 'q', … of the indices, broadcast. A mask picks
// as many elements as it likes: its places are one axis that stays whole.
struct Indexing {
  std::vector<Term> terms;  // self and the indices
  std::string places, result;
};

// Nothing where a mask is sharded, or what it picks from: how much it picks from a piece, only its elements say.
std::optional<Indexing> indexing_of(const Planner& p) {
  const Spec* self = p.spec(0);
  const auto indices = p.specs(1);
  if (self->rank() > 'p' - 'a') return {};  // from 'p' on letters are places
  std::string all = letters(self->rank());
  size_t axis = 0, rank = 0, first = 0, last = 0, indexed = 0;
  bool any_mask = false;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Spec* index = indices[i];
    const bool mask = index && p.is_mask(1, static_cast<int>(i));
    if (mask && index->rank() == 0) return {};
    if (!index) {
      ++axis;
      continue;
    }
    if (indexed == 0) first = axis;
    if (axis + (mask ? index->sizes.size() : 1) > all.size()) throw NoShardedForm();  // more than axes
    for (size_t k = 0; k < (mask ? index->sizes.size() : 1); ++k, ++axis, ++indexed) {
      if (mask && (self->axes[axis] >= 0 || index->axes[k] >= 0)) return {};
      all = whole_at(all, {static_cast<int64_t>(axis)});
      last = axis;
    }
    any_mask |= mask;
    rank = std::max(rank, mask ? 1 : index->sizes.size());
  }
  Indexing indexing;
  indexing.places = letters(static_cast<int64_t>(rank), any_mask ? 'P' : 'p');
  indexing.terms.push_back({0, all});
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    const auto item = static_cast<int>(i);
    indexing.terms.push_back({1,
                              p.is_mask(1, item) ? letters(indices[i]->rank(), 'A')
                                                 : indexing.places.substr(rank - indices[i]->sizes.size()),
                              item,
                              /*broadcasts=*/true});
  }
  const bool neighbours = last + 1 - first == indexed;
  if (!neighbours) indexing.result = indexing.places;
  for (size_t k = 0; k < all.size(); ++k) {
    if (k == first && neighbours) indexing.result += indexing.places;
    if (std::islower(static_cast<unsigned char>(all[k]))) indexing.result += all[k];
  }
  return indexing;
}

// index(self, indices)
bool index(Planner& p) {
  const auto indexing = indexing_of(p);
  return indexing && (shard(p, indexing->terms, {indexing->result}), true);
}

// An axis of the places that an operand of index_put has sharded.
struct CutPlaces {
  const Term* term = nullptr;
  const Spec* spec = nullptr;
  size_t axis = 0;
};

// Makes the places whole but, if `in_parts`, for the longest axis that an operand has sharded, which is returned.
CutPlaces keep_one_cut(const Planner& p, Indexing& indexing, bool in_parts) {
  CutPlaces cut;
  const auto is_place = [&](char letter) { return indexing.places.find(letter) != std::string::npos; };
  for (const Term& term : indexing.terms) {
    if (term.argument == 0 || !in_parts) continue;
    const Spec* spec = term.item < 0 ? p.spec(term.argument) : p.specs(1)[static_cast<size_t>(term.item)];
    for (size_t axis = 0; axis < term.letters.size(); ++axis)
      if (is_place(term.letters[axis]) && spec->axes[axis] >= 0 &&
          (!cut.term || spec->sizes[axis] > cut.spec->sizes[cut.axis]))
        cut = {&term, spec, axis};
  }
  const char kept = cut.term ? cut.term->letters[cut.axis] : 'P';
  for (Term& term : indexing.terms)
    for (char& letter : term.letters)
      if (letter != kept && is_place(letter)) letter = 'P';
  return cut;
}

// What the indices pick has these sizes, by letter, but for what a mask picks.
std::map<char, int64_t> picked_sizes(const Planner& p, const Indexing& indexing) {
  std::map<char, int64_t> sizes;
  for (const Term& term : indexing.terms) {
    const Spec* spec = term.item < 0 ? p.spec(term.argument) : p.specs(1)[static_cast<size_t>(term.item)];
    for (size_t axis = 0; axis < term.letters.size(); ++axis) {
      int64_t& size = sizes.try_emplace(term.letters[axis], 1).first->second;
      if (spec->sizes[axis] != 1) size = spec->sizes[axis];
    }
  }
  return sizes;
}

// index_put(self, indices, values, accumulate, …): the values broadcast to what the indices pick. Values to be added
// may come in parts: in place along all axes of the places, else along one.
bool index_put(Planner& p) {
  auto indexing = indexing_of(p);
  const auto rank = static_cast<size_t>(p.spec(2)->rank());
  if (!indexing || rank > indexing->result.size()) return false;
  const std::string values = indexing->result.substr(indexing->result.size() - rank);
  const auto picked = picked_sizes(p, *indexing);
  for (size_t axis = 0; axis < rank; ++axis)  // else the values would seem to repeat the indices
    if (const auto found = picked.find(values[axis]);
        found != picked.end() && p.spec(2)->sizes[axis] != 1 && p.spec(2)->sizes[axis] != found->second)
      throw NoShardedForm();
  indexing->terms.push_back({2, values, -1, /*broadcasts=*/true});
  const bool in_parts = p.boolean(3) && adds_parts(p);
  const CutPlaces cut = in_parts && p.info().writes[0] ? CutPlaces() : keep_one_cut(p, *indexing, in_parts);
  shard(p, indexing->terms, {indexing->terms[0].letters});
  if (cut.term) add_source_once(p, cut.term->argument, cut.term->item, cut.axis);
  return true;
}

// take(self, index): places in the whole tensor.
bool take(Planner& p) {
  const std::string index = letters(p.spec(1)->rank());
  return shard(p, {{0, letters(p.spec(0)->rank(), 'A')}, {1, index}}, {index}), true;
}

// bucketize(self, boundaries)
bool bucketize(Planner& p) {
  if (!p.spec(0)) return false;
  const std::string all = letters(p.spec(0)->rank());
  return shard(p, {{0, all}, {1, "Z"}}, {all}), true;
}

// searchsorted(sorted_sequence, self, …, sorter): one sequence for all values, or one for each row of values.
bool searchsorted(Planner& p) {
  if (!p.spec(1)) return false;
  const std::string all = letters(p.spec(1)->rank());
  std::string sequence = "Z";
  if (p.spec(0)->rank() > 1) sequence = whole_at(all, {-1});
  std::string values = all;
  if (p.spec(0)->rank() > 1) values.back() = 'z';
  return shard(p, {{0, sequence}, {1, values}, {5, sequence}}, {values}), true;
}

}  // namespace

void add_indexing_rules(RuleTable& table) {
  constexpr auto kNone = SizeArguments::none;
  table["gather"] = {gather_elements, kNone};
  for (const char* name : {"scatter", "scatter_", "scatter_reduce", "scatter_reduce_"})
    table[name] = {scatter<false>, kNone};
  table["scatter_add"] = table["scatter_add_"] = {scatter<true>, kNone};
  table["index_select"] = {index_select, kNone};
  table["index_add"] = table["index_add_"] = {index_write<true>, kNone};
  for (const char* name : {"index_copy", "index_copy_", "index_fill", "index_fill_"})
    table[name] = {index_write<false>, kNone};
  table["index_reduce"] = table["index_reduce_"] = {index_reduce, kNone};
  table["index"] = table["_unsafe_index"] = {index, kNone};
  for (const char* name : {"index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"})
    table[name] = {index_put, kNone};
  table["take"] = {take, kNone};
  table["bucketize"] = {bucketize, kNone};
  table["searchsorted"] = {searchsorted, kNone};
}

}  // namespace tutti
