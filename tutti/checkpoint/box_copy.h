#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tutti/checkpoint/region.h"
#include "tutti/core/function_ref.h"

namespace tutti::checkpoint {

// How the elements that a shard and a destination have in common get from one to the other: a number of runs of bytes,
// each contiguous in both. The shard is row-major. The runs are numbered as they lie in the shard.
//
//   shard [0:2, 0:8], destination [0:4, 4:8]: two runs of 4 elements, at 4 and 12 of the shard, at 0 and 4 of the
//   destination
class BoxCopy {
 public:
  // The regions are of one tensor whose elements have `element_bytes` bytes. The destination's strides are in elements.
  BoxCopy(const Region& shard, const Region& destination, c10::IntArrayRef destination_strides, uint64_t element_bytes);

  int64_t num_runs() const { return num_runs_; }
  uint64_t run_bytes() const { return run_bytes_; }
  // Where a shard of this many bytes begins in the destination; nullopt unless all of it is one run.
  std::optional<uint64_t> place_of_whole(uint64_t shard_bytes) const {
    if (num_runs_ != 1 || run_bytes_ != shard_bytes) return {};
    return base_.destination;
  }
  // The first run that ends behind this byte of the shard; num_runs() if there is none.
  int64_t first_run_behind(uint64_t byte) const;

  // Whether a run has bytes of [begin, end) of the shard.
  bool touches(uint64_t begin, uint64_t end) const;
  // Calls part(from, to, bytes) for what each run has of [begin, end) of the shard: bytes that lie at `from` there, at
  // `to` of the destination.
  void for_each_part(uint64_t begin, uint64_t end,
                     FunctionRef<void(uint64_t from, uint64_t to, uint64_t bytes)> part) const;
  // Copies what `bytes`, the shard from `begin` on, has of the runs.
  void scatter(uint64_t begin, std::span<const std::byte> bytes, std::byte* destination) const;
  // The same from all bytes of the shard.
  void scatter_whole(const std::byte* shard, std::byte* destination) const;

 private:
  // Bytes from the beginning of the shard and of the destination.
  struct Place {
    uint64_t shard = 0;
    uint64_t destination = 0;
  };
  // An axis that runs are counted by.
  struct Axis {
    int64_t count = 1;
    Place stride;
  };
  Place place_of(int64_t run) const;
  template <class F>
  void visit_parts(uint64_t begin, uint64_t end, F part) const;

  c10::SmallVector<Axis, 4> axes_;  // the last one first
  int64_t num_runs_ = 1;
  uint64_t run_bytes_;
  Place base_;  // of the first run
};

}  // namespace tutti::checkpoint
