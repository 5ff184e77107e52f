#include "tutti/checkpoint/region.h"

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::checkpoint {

int64_t Region::numel() const {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

Region Region::intersection(const Region& other) const {
  Region result = *this;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    result.first[axis] = std::max(first[axis], other.first[axis]);
    const int64_t end = std::min(first[axis] + sizes[axis], other.first[axis] + other.sizes[axis]);
    result.sizes[axis] = std::max<int64_t>(0, end - result.first[axis]);
  }
  return result;
}

std::string Region::to_string() const {
  std::vector<std::string> axes;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const uint64_t end =
        static_cast<uint64_t>(first[axis]) + static_cast<uint64_t>(sizes[axis]);  // of a damaged one, too
    axes.push_back(str(first[axis], ':', end));
  }
  return str_list(axes);
}

bool is_grid_of(std::span<const Region> regions, const std::vector<int64_t>& sizes) {
  if (regions.empty()) return false;
  if (regions.size() == 1) return regions[0] == Region::whole(sizes);
  for (const Region& region : regions)
    if (region.rank() != static_cast<int64_t>(sizes.size()) || region.first.size() != sizes.size()) return false;
  uint64_t cells = 1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    std::vector<std::pair<int64_t, int64_t>> cuts;  // first index and length
    for (const Region& region : regions) cuts.emplace_back(region.first[axis], region.sizes[axis]);
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    int64_t end = 0;
    for (const auto& [first, length] : cuts) {
      if (first != end || length < 0 || length > sizes[axis] - first) return false;
      end += length;
    }
    if (end != sizes[axis]) return false;
    cells *= cuts.size();
    if (cells > regions.size()) return false;
  }
  std::vector<const std::vector<int64_t>*> firsts;
  for (const Region& region : regions) firsts.push_back(&region.first);
  const auto less = [](const auto* a, const auto* b) { return *a < *b; };
  const auto equal = [](const auto* a, const auto* b) { return *a == *b; };
  std::ranges::sort(firsts, less);
  return cells == regions.size() && std::ranges::adjacent_find(firsts, equal) == firsts.end();
}

}  // namespace tutti::checkpoint
