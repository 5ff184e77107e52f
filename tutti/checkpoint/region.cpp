#include "tutti/checkpoint/region.h"

#include <algorithm>
#include <utility>

#include "tutti/core/str.h"

namespace tutti::checkpoint {

int64_t Region::numel() const {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

bool Region::overlaps(const Region& other) const {
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (std::max(first[axis], other.first[axis]) >=
        std::min(first[axis] + sizes[axis], other.first[axis] + other.sizes[axis]))
      return false;
  return true;
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

bool is_grid_of(std::span<const Region* const> regions, c10::IntArrayRef sizes) {
  if (regions.empty()) return false;
  for (const Region* region : regions)
    if (region->sizes.size() != sizes.size() || region->first.size() != sizes.size()) return false;
  uint64_t cells = 1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    c10::SmallVector<std::pair<int64_t, int64_t>, 16> cuts;  // first index and length
    for (const Region* region : regions) cuts.emplace_back(region->first[axis], region->sizes[axis]);
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
  c10::SmallVector<const Region::Axes*, 16> firsts;
  for (const Region* region : regions) firsts.push_back(&region->first);
  const auto less = [](const auto* a, const auto* b) { return *a < *b; };
  const auto equal = [](const auto* a, const auto* b) { return *a == *b; };
  std::ranges::sort(firsts, less);
  return cells == regions.size() && std::ranges::adjacent_find(firsts, equal) == firsts.end();
}

}  // namespace tutti::checkpoint
