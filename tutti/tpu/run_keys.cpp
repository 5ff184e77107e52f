#include "tutti/tpu/run_keys.h"

#include <ATen/CPUGeneratorImpl.h>

namespace tutti::tpu {

uint64_t RunKeys::draw() {
  const std::lock_guard lock(mutex_);
  generators_.follow_seed();
  at::Generator& generator = *generators_.of(0);
  const std::scoped_lock drawing(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace tutti::tpu
