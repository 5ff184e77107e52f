#include "tutti/collectives/shared_memory/shared_buffers.h"

#include <sys/mman.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr size_t kMostSpare = 4;
constexpr size_t kMostOthers = 4096;  // a process may have 65,530 mappings

void release(const SharedBuffers::Buffer& buffer) {
  madvise(buffer.data, buffer.bytes, MADV_REMOVE);  // its pages, whoever else has mapped them
  munmap(buffer.data, buffer.bytes);
}

}  // namespace

SharedBuffers::~SharedBuffers() {
  std::ranges::for_each(spare_, release);
  for (const auto& [place, other] : others_) munmap(other.data, other.bytes);
}

std::shared_ptr<std::byte> SharedBuffers::allocate(size_t bytes) {
  const size_t whole = GroupMemory::whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  Buffer buffer;
  if (const auto found = std::ranges::find(spare_, whole, &Buffer::bytes); found != spare_.end()) {
    buffer = *found;
    spare_.erase(found);
  } else {
    const auto place = memory_->take_room(whole);
    if (!place) return nullptr;
    buffer = {memory_->map(*place, whole), *place, whole};
  }
  used_.push_back(buffer);
  return {buffer.data, [self = shared_from_this()](std::byte* data) { self->give_back(data); }};
}

void SharedBuffers::give_back(std::byte* data) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(used_, data, &Buffer::data);
  spare_.push_back(*found);
  used_.erase(found);
  if (spare_.size() <= kMostSpare) return;
  release(spare_.front());
  spare_.erase(spare_.begin());
}

SharedBuffers::Buffer SharedBuffers::find(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(used_, data, &Buffer::data);
  return found == used_.end() ? Buffer{} : *found;
}

std::byte* SharedBuffers::of_other(uint64_t place, size_t bytes) {
  Buffer& known = others_[place];
  if (known.bytes >= bytes) return known.data;
  if (known.data) munmap(known.data, known.bytes);
  known = {};
  const size_t whole = GroupMemory::whole_pages(bytes);
  known = {memory_->map(place, whole), place, whole};
  return known.data;
}

void SharedBuffers::expect_others(size_t count) {
  if (others_.size() + count <= kMostOthers) return;
  for (const auto& [place, other] : others_) munmap(other.data, other.bytes);
  others_.clear();
}

}  // namespace tutti
