#include "tutti/checkpoint/box_copy.h"

#include <algorithm>
#include <cstring>

namespace tutti::checkpoint {

BoxCopy::BoxCopy(const Region& shard, const Region& destination, uint64_t element_bytes) : run_bytes_(element_bytes) {
  const Region common = shard.intersection(destination);
  uint64_t shard_stride = element_bytes, destination_stride = element_bytes;
  bool contiguous = true;  // as long as the axes behind are whole in both
  for (size_t axis = common.sizes.size(); axis-- > 0;) {
    const int64_t count = common.sizes[axis];
    shard_.base += static_cast<uint64_t>(common.first[axis] - shard.first[axis]) * shard_stride;
    destination_.base += static_cast<uint64_t>(common.first[axis] - destination.first[axis]) * destination_stride;
    if (contiguous) {
      run_bytes_ *= static_cast<uint64_t>(count);
    } else {
      num_runs_ *= count;
      counts_.push_back(count);
      shard_.strides.push_back(shard_stride);
      destination_.strides.push_back(destination_stride);
    }
    contiguous = contiguous && count == shard.sizes[axis] && count == destination.sizes[axis];
    shard_stride *= static_cast<uint64_t>(shard.sizes[axis]);
    destination_stride *= static_cast<uint64_t>(destination.sizes[axis]);
  }
  if (run_bytes_ == 0) num_runs_ = 0;
}

uint64_t BoxCopy::offset(int64_t run, const Place& place) const {
  uint64_t offset = place.base;
  for (size_t i = 0; i < counts_.size(); ++i) {  // the last axis first
    offset += static_cast<uint64_t>(run % counts_[i]) * place.strides[i];
    run /= counts_[i];
  }
  return offset;
}

int64_t BoxCopy::first_run_behind(uint64_t byte) const {
  int64_t low = 0, high = num_runs_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (shard_offset(middle) + run_bytes_ > byte)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

bool BoxCopy::touches(uint64_t begin, uint64_t end) const {
  const int64_t run = first_run_behind(begin);
  return run < num_runs_ && shard_offset(run) < end;
}

int64_t BoxCopy::place_of(uint64_t begin, uint64_t end) const {
  const int64_t run = first_run_behind(begin);
  if (run == num_runs_ || shard_offset(run) > begin || shard_offset(run) + run_bytes_ < end) return -1;
  return static_cast<int64_t>(destination_offset(run) + begin - shard_offset(run));
}

void BoxCopy::scatter(uint64_t begin, std::span<const std::byte> bytes, std::byte* destination) const {
  const uint64_t end = begin + bytes.size();
  for (int64_t run = first_run_behind(begin); run < num_runs_ && shard_offset(run) < end; ++run) {
    const uint64_t from = std::max(begin, shard_offset(run)), to = std::min(end, shard_offset(run) + run_bytes_);
    std::memcpy(destination + destination_offset(run) + (from - shard_offset(run)), bytes.data() + (from - begin),
                to - from);
  }
}

}  // namespace tutti::checkpoint
