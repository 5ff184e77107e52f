#include "tutti/data/graph/passes.h"

#include "tutti/core/str.h"

namespace tutti::data::graph {

uint64_t Passes::begin() {
  const std::scoped_lock lock(mutex_);
  const uint64_t pass = again_ ? next_++ : 0;
  return SplitMix64(seed_ ^ SplitMix64(pass).next()).next();
}

void Passes::save(StateWriter& state) const {
  const std::scoped_lock lock(mutex_);
  state.op(str("passes of ", op_), {again_});
  state.number(static_cast<int64_t>(seed_));
  state.number(static_cast<int64_t>(next_));
}

void Passes::restore(StateReader& state) {
  state.op(str("passes of ", op_), {again_});
  const auto seed = static_cast<uint64_t>(state.number());
  const auto next = static_cast<uint64_t>(state.number());
  state.when_restored([self = shared_from_this(), seed, next] {
    const std::scoped_lock lock(self->mutex_);
    self->seed_ = seed;
    self->next_ = next;
  });
}

}  // namespace tutti::data::graph
