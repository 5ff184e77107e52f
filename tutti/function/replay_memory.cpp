#include "tutti/function/replay_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <utility>

#include "tutti/device/on_device.h"
#include "tutti/function/geometry.h"

namespace tutti {

c10::DataPtr allocate_on(c10::Device device, int64_t bytes) {
  const OnDevice there(device);
  return c10::GetAllocator(device.type())->allocate(static_cast<size_t>(bytes));
}

c10::Storage storage_of(int64_t bytes, c10::DataPtr data) {
  c10::Allocator* const allocator = c10::GetAllocator(data.device().type());
  return {c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), std::move(data), allocator, true};
}

at::Tensor bytes_on(const c10::Storage& storage, int64_t bytes) {
  return tensor_on(storage, {at::kByte, {bytes}, {1}, 0, false, false});
}

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
