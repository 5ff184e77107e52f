#include "tutti/data/graph/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace tutti::data::graph {

uint64_t draw_seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get<at::CPUGeneratorImpl>()->random64();
}

}  // namespace tutti::data::graph
