#include "tutti/function/seed_watch.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

namespace tutti {

// That of the generator, where nothing was drawn since it was set.
std::optional<uint64_t> SeedWatch::unused_seed() {
  auto* const generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::scoped_lock lock(generator->mutex_);
  const at::mt19937_data_pod state = generator->engine().data();
  return state.left_ == 1 && state.next_ == 0 ? std::optional(state.seed_) : std::nullopt;
}

std::optional<uint64_t> SeedWatch::look() {
  const auto before = std::exchange(unused_, unused_seed());
  return unused_ == before ? std::nullopt : unused_;
}

void seed_cpu(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace tutti
