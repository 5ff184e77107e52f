#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tutti/collectives/shared_memory/group_memory.h"

namespace tutti {

// The buffers of a member in the memory of its group, and those of others as it sees them. A buffer that is dropped is
// kept for the next one of its size; of those that wait so, only a few keep their pages.
class SharedBuffers : public std::enable_shared_from_this<SharedBuffers> {
 public:
  explicit SharedBuffers(std::shared_ptr<GroupMemory> memory) : memory_(std::move(memory)) {}
  ~SharedBuffers();
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

  struct Buffer {
    std::byte* data = nullptr;
    uint64_t place = 0;  // GroupMemory::map
    size_t bytes = 0;
  };

  // Null where there is no room; see Group::allocate_shared. Any thread.
  std::shared_ptr<std::byte> allocate(size_t bytes);
  // That begins there: one without bytes if none does. Any thread.
  Buffer find(const void* data) const;

  // A buffer of another member; it stays where it is until expect_others(). One thread. Throws: as GroupMemory::map.
  std::byte* of_other(uint64_t place, size_t bytes);
  // So many buffers of others will be asked for next; where there are too many by then, those before are forgotten.
  void expect_others(size_t count);

 private:
  void give_back(std::byte* data);

  const std::shared_ptr<GroupMemory> memory_;
  mutable std::mutex mutex_;
  std::vector<Buffer> used_, spare_;
  std::unordered_map<uint64_t, Buffer> others_;  // by place
};

}  // namespace tutti
