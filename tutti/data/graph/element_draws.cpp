#include "tutti/data/graph/element_draws.h"

#include <bit>

#include "tutti/data/graph/passes.h"
#include "tutti/data/graph/random.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/registration.h"

namespace tutti::data::graph {

ElementDraws::ElementDraws(const std::shared_ptr<const Passes>& passes, const Context& context) {
  if (!passes) return;
  ensure_registered();  // a thread's view hands the generators out
  seed_ = passes->seed_of(context);
  given_seed_ = passes->given_seed(context);
}

at::Generator ElementDraws::generator_of(int64_t index) const {
  const uint64_t spread = SplitMix64(static_cast<uint64_t>(index)).next();
  return make_generator(SplitMix64(*seed_ ^ spread).next(), at::kCPU);
}

void ElementDraws::save(StateWriter& state) const {
  state.given_seed(given_seed_);
  if (seed_) state.number(std::bit_cast<int64_t>(*seed_));
}

void ElementDraws::restore(StateReader& state) {
  if (seed_) seed_ = std::bit_cast<uint64_t>(state.number());
}

}  // namespace tutti::data::graph
