#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>
#include <string>

namespace tutti::checkpoint {

// A box of a tensor's elements: along each axis `sizes[axis]` indices from `first[axis]` on.
struct Region {
  using Axes = c10::SmallVector<int64_t, 4>;  // a checkpoint of many small tensors has a region for each shard

  Axes first;
  Axes sizes;
  bool operator==(const Region&) const = default;

  // All of a tensor.
  static Region whole(c10::IntArrayRef sizes) { return {Axes(sizes.size(), 0), Axes(sizes)}; }

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const;
  // Whether both, of one rank, have elements in common.
  bool overlaps(const Region& other) const;
  // "[0:4, 8:16]"
  std::string to_string() const;
};

// Whether the regions, in any order, are the cells of a grid that covers a tensor of these sizes: each axis is cut into
// lengths, and each combination of them is there once.
bool is_grid_of(std::span<const Region* const> regions, c10::IntArrayRef sizes);

}  // namespace tutti::checkpoint
