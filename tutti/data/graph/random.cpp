#include "tutti/data/graph/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace tutti::data::graph {

uint64_t draw_seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get<at::CPUGeneratorImpl>()->random64();
}

Seed seed_or_drawn(const std::optional<uint64_t>& given) {
  return {.value = given ? *given : draw_seed(), .is_given = given.has_value()};
}

}  // namespace tutti::data::graph
