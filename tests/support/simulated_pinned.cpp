#include "tests/support/simulated_pinned.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>

namespace tutti {
namespace {

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const std::shared_ptr<std::byte[]> block(new std::byte[size + 1], [size](std::byte* memory) {
      std::memset(memory, 0xFF, size);
      delete[] memory;
    });
    const std::lock_guard lock(mutex_);
    blocks_[block.get()] = {block, size + 1};
    return {block.get(), block.get(), &PinnedMemory::free, c10::kCPU};
  }
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }

  bool has(const void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto* const byte = static_cast<const std::byte*>(pointer);
    auto behind = blocks_.upper_bound(byte);
    if (behind == blocks_.begin()) return false;
    const auto& [begin, block] = *--behind;
    return byte < begin + block.size;
  }

  // Null: no block begins there.
  std::shared_ptr<const void> block_at(const void* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<const std::byte*>(begin));
    return found == blocks_.end() ? nullptr : found->second.memory;
  }

  static PinnedMemory& all() {
    static PinnedMemory& memory = *new PinnedMemory;
    return memory;
  }

 private:
  struct Block {
    std::shared_ptr<std::byte[]> memory;
    size_t size;
  };

  static void free(void* block) {
    const std::shared_ptr<const void> last = all().block_at(block);
    const std::lock_guard lock(all().mutex_);
    all().blocks_.erase(static_cast<const std::byte*>(block));
  }

  std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
};

}  // namespace

c10::Allocator& simulated_pinned_memory() { return PinnedMemory::all(); }

bool is_simulated_pinned(const void* pointer) { return PinnedMemory::all().has(pointer); }

std::shared_ptr<const void> kept_for_copy(const void* pointer, const void* context) {
  if (auto known = PinnedMemory::all().block_at(context)) return known;
  return PinnedMemory::all().block_at(pointer);
}

}  // namespace tutti
