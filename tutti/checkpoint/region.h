#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::checkpoint {

// A box of a tensor's elements: along each axis `sizes[axis]` indices from `first[axis]` on.
struct Region {
  std::vector<int64_t> first;
  std::vector<int64_t> sizes;
  bool operator==(const Region&) const = default;

  // All of a tensor.
  static Region whole(std::vector<int64_t> sizes) { return {std::vector<int64_t>(sizes.size(), 0), std::move(sizes)}; }

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const;
  // The box that both have in common; of no elements where they have none. Both have one rank.
  Region intersection(const Region& other) const;
  // "[0:4, 8:16]"
  std::string to_string() const;
};

// Whether the regions, in any order, are the cells of a grid that covers a tensor of these sizes: each axis is cut into
// lengths, and each combination of them is there once.
bool is_grid_of(std::span<const Region> regions, const std::vector<int64_t>& sizes);

}  // namespace tutti::checkpoint
