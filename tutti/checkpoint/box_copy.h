#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/checkpoint/region.h"

namespace tutti::checkpoint {

// How the elements that a shard and a destination have in common get from one to the other: a number of runs of bytes,
// each contiguous in both. Both are row-major. The runs are numbered as they lie in the shard.
//
//   shard [0:2, 0:8], destination [0:4, 4:8]: two runs of 4 elements, at 4 and 12 of the shard, at 0 and 4 of the
//   destination
class BoxCopy {
 public:
  // The regions are of one tensor whose elements have `element_bytes` bytes.
  BoxCopy(const Region& shard, const Region& destination, uint64_t element_bytes);

  int64_t num_runs() const { return num_runs_; }
  uint64_t run_bytes() const { return run_bytes_; }
  // Where a run begins, in bytes from the beginning of the shard and of the destination.
  uint64_t shard_offset(int64_t run) const { return place_of_run(run).shard; }
  uint64_t destination_offset(int64_t run) const { return place_of_run(run).destination; }
  // The first run that ends behind this byte of the shard; num_runs() if there is none.
  int64_t first_run_behind(uint64_t byte) const;

  // Whether a run has bytes of [begin, end) of the shard.
  bool touches(uint64_t begin, uint64_t end) const;
  // Whether one run has all of [begin, end): its bytes can then be read to this place of the destination, else -1.
  int64_t place_of(uint64_t begin, uint64_t end) const;
  // Copies what `bytes`, the shard from `begin` on, has of the runs.
  void scatter(uint64_t begin, std::span<const std::byte> bytes, std::byte* destination) const;

 private:
  // Bytes from the beginning of the shard and of the destination.
  struct Place {
    uint64_t shard = 0;
    uint64_t destination = 0;
  };
  // An axis that runs are counted by.
  struct Axis {
    int64_t count;
    Place stride;
  };
  Place place_of_run(int64_t run) const;

  c10::SmallVector<Axis, 4> axes_;  // the last one first
  int64_t num_runs_ = 1;
  uint64_t run_bytes_;
  Place base_;  // of the first run
};

}  // namespace tutti::checkpoint
