#include "tutti/function/replay_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <utility>

namespace tutti {

ReplayMemory::Block ReplayMemory::take(int64_t bytes) {
  Block block;
  {
    const std::lock_guard lock(mutex_);
    const auto largest = std::ranges::max_element(free_, {}, &Block::bytes);
    if (largest != free_.end()) {
      block = std::move(*largest);
      free_.erase(largest);
    }
  }
  if (block.bytes >= bytes) return block;
  block.data.clear();  // before the larger one is there
  return {c10::GetAllocator(c10::kCPU)->allocate(static_cast<size_t>(bytes)), bytes};
}

void ReplayMemory::give_back(Block block) {
  if (block.bytes == 0) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(block));
}

}  // namespace tutti
