#include <algorithm>

#include "tutti/keras/layers/merging/merged_shapes_internal.h"

namespace tutti::keras::layers {
namespace {

std::optional<int64_t> merged_extent(int64_t a, int64_t b) {
  if (a == 1 || a == b) return b;
  if (b == 1) return a;
  if (a == kUnknown) return b;
  if (b == kUnknown) return a;
  return std::nullopt;
}

}  // namespace

std::optional<Shape> merged_shape(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const Shape& longer = a.size() >= b.size() ? a : b;
  Shape shorter = a.size() >= b.size() ? b : a;
  shorter.insert(shorter.begin() + 1, longer.size() - shorter.size(), 1);
  Shape merged;
  for (size_t axis = 0; axis < longer.size(); ++axis) {
    const auto extent = merged_extent(longer[axis], shorter[axis]);
    if (!extent) return std::nullopt;
    merged.push_back(*extent);
  }
  return merged;
}

}  // namespace tutti::keras::layers
