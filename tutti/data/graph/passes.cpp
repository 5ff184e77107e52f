#include "tutti/data/graph/passes.h"

#include <algorithm>
#include <unordered_set>

#include "tutti/core/str.h"

namespace tutti::data::graph {

PassNumbers::Number PassNumbers::of(const Passes& passes) const {
  const auto found = numbers_.find(passes.weak_from_this());
  return found == numbers_.end() ? Number{passes.seed(), 0} : found->second;
}

Context Context::part(uint64_t index) const {
  Context part = *this;
  ++part.depth;
  if (index > 0) part.place = SplitMix64(place ^ SplitMix64(static_cast<uint64_t>(depth) << 48 ^ index).next()).next();
  return part;
}

uint64_t Passes::seed() const {
  const std::scoped_lock lock(mutex_);
  return seed_;
}

PassNumbers::Number Passes::number_of(const Context& context) const {
  return context.numbers ? context.numbers->of(*this) : PassNumbers::Number{seed(), 0};
}

std::optional<uint64_t> Passes::given_seed(const Context& context) const {
  return is_given_ ? std::optional(number_of(context).seed) : std::nullopt;
}

uint64_t Passes::seed_of(const Context& context) const {
  auto [seed, iterator] = number_of(context);
  if (!again_ || context.is_first) iterator = 0;
  return SplitMix64(seed ^ SplitMix64(iterator).next() ^ (again_ ? context.place : 0)).next();
}

Context Passes::of_functions(const Context& context) const {
  Context inner = context.fixed();
  inner.place = seed_of(context);
  return inner;
}

void Passes::begin(PassNumbers& numbers) {
  const std::scoped_lock lock(mutex_);
  numbers.set(shared_from_this(), {seed_, iterators_++});
}

void Passes::save(StateWriter& state) const {
  const PassNumbers::Number number =
      state.numbers() ? state.numbers()->of(*this) : PassNumbers::Number{this->seed(), 0};
  const std::scoped_lock lock(mutex_);
  state.op(str("passes of ", op_), {again_});
  state.number(static_cast<int64_t>(number.seed));
  state.number(static_cast<int64_t>(number.iterator));
  state.number(static_cast<int64_t>(iterators_));
}

void Passes::restore(StateReader& state) {
  state.op(str("passes of ", op_), {again_});
  const auto seed = static_cast<uint64_t>(state.number());
  const auto iterator = static_cast<uint64_t>(state.number());
  const auto iterators = static_cast<uint64_t>(state.number());
  if (state.numbers()) state.numbers()->set(shared_from_this(), {seed, iterator});
  state.when_restored([self = shared_from_this(), seed, iterators] {
    const std::scoped_lock lock(self->mutex_);
    self->seed_ = seed;
    self->iterators_ = iterators;
  });
}

std::vector<uint64_t> parts_of(const std::vector<NodePtr>& inputs) {
  std::vector<std::unordered_set<const SharedState*>> shared;
  std::vector<uint64_t> parts;
  for (const NodePtr& input : inputs) {
    std::unordered_set<const SharedState*> own;
    for (const Node* node : nodes_of(*input))
      if (node->shared) own.insert(node->shared.get());
    const auto has_one = [&](const auto& other) {
      return std::ranges::any_of(other, [&](const SharedState* state) { return own.contains(state); });
    };
    parts.push_back(static_cast<uint64_t>(std::ranges::count_if(shared, has_one)));
    shared.push_back(std::move(own));
  }
  return parts;
}

}  // namespace tutti::data::graph
