#include "tutti/checkpoint/box_copy.h"

#include <algorithm>
#include <cstring>

namespace tutti::checkpoint {
namespace {

// For short runs: a call of memcpy would take longer than the copy.
void copy_run(std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kBlock = 16, kMaxBlocks = 16;
  if (bytes < kBlock || bytes > kMaxBlocks * kBlock) return void(std::memcpy(to, from, bytes));
  for (uint64_t at = 0; at < bytes - kBlock; at += kBlock) std::memcpy(to + at, from + at, kBlock);
  std::memcpy(to + bytes - kBlock, from + bytes - kBlock, kBlock);
}

}  // namespace

BoxCopy::BoxCopy(const Region& shard, const Region& destination, c10::IntArrayRef destination_strides,
                 uint64_t element_bytes)
    : run_bytes_(element_bytes) {
  uint64_t shard_stride = element_bytes;
  bool contiguous = true;  // as long as the axes behind are whole in the shard and next to each other in both
  for (size_t axis = shard.sizes.size(); axis-- > 0;) {
    const int64_t first = std::max(shard.first[axis], destination.first[axis]);
    const int64_t end =
        std::min(shard.first[axis] + shard.sizes[axis], destination.first[axis] + destination.sizes[axis]);
    const int64_t count = std::max<int64_t>(0, end - first);
    const Place stride{shard_stride, static_cast<uint64_t>(destination_strides[axis]) * element_bytes};
    base_.shard += static_cast<uint64_t>(first - shard.first[axis]) * stride.shard;
    base_.destination += static_cast<uint64_t>(first - destination.first[axis]) * stride.destination;
    contiguous = contiguous && (count == 1 || (stride.shard == run_bytes_ && stride.destination == run_bytes_));
    if (contiguous) {
      run_bytes_ *= static_cast<uint64_t>(count);
    } else if (count != 1) {
      num_runs_ *= count;
      // Number by number: an axis that is copied as a whole would wait for the writes of its parts.
      Axis& counted = axes_.emplace_back();
      counted.count = count;
      counted.stride.shard = stride.shard;
      counted.stride.destination = stride.destination;
    }
    shard_stride *= static_cast<uint64_t>(shard.sizes[axis]);
  }
  if (run_bytes_ == 0) num_runs_ = 0;
}

BoxCopy::Place BoxCopy::place_of(int64_t run) const {
  Place place = base_;
  for (const Axis& axis : axes_) {
    const auto index = static_cast<uint64_t>(run % axis.count);
    place.shard += index * axis.stride.shard;
    place.destination += index * axis.stride.destination;
    run /= axis.count;
  }
  return place;
}

int64_t BoxCopy::first_run_behind(uint64_t byte) const {
  if (byte < base_.shard + run_bytes_) return 0;
  int64_t low = 0, high = num_runs_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (place_of(middle).shard + run_bytes_ > byte)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

bool BoxCopy::touches(uint64_t begin, uint64_t end) const {
  const int64_t run = first_run_behind(begin);
  return run < num_runs_ && place_of(run).shard < end;
}

template <class F>
void BoxCopy::visit_parts(uint64_t begin, uint64_t end, F part) const {
  const Axis inner = axes_.empty() ? Axis{1, {}} : axes_.front();
  for (int64_t run = first_run_behind(begin); run < num_runs_;) {
    Place place = place_of(run);
    for (int64_t left = inner.count - run % inner.count; left > 0; --left, ++run) {
      if (place.shard >= end) return;
      const uint64_t from = std::max(begin, place.shard), to = std::min(end, place.shard + run_bytes_);
      part(from, place.destination + (from - place.shard), to - from);
      place.shard += inner.stride.shard;
      place.destination += inner.stride.destination;
    }
  }
}

void BoxCopy::for_each_part(uint64_t begin, uint64_t end, FunctionRef<void(uint64_t, uint64_t, uint64_t)> part) const {
  visit_parts(begin, end, part);
}

void BoxCopy::scatter(uint64_t begin, std::span<const std::byte> bytes, std::byte* destination) const {
  visit_parts(begin, begin + bytes.size(), [&](uint64_t from, uint64_t to, uint64_t count) {
    std::memcpy(destination + to, bytes.data() + (from - begin), count);
  });
}

void BoxCopy::scatter_whole(const std::byte* shard, std::byte* destination) const {
  static constexpr Axis kOne;
  const Axis& inner = axes_.empty() ? kOne : axes_.front();
  for (int64_t run = 0; run < num_runs_; run += inner.count) {
    Place place = place_of(run);
    for (int64_t left = inner.count; left > 0; --left) {
      copy_run(destination + place.destination, shard + place.shard, run_bytes_);
      place.shard += inner.stride.shard;
      place.destination += inner.stride.destination;
    }
  }
}

}  // namespace tutti::checkpoint
