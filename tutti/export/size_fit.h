#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/export/program.h"

namespace tutti::saved_model {

// The points at which a function of unknown sizes is looked at, and what it is by what it was there.
class SizePoints {
 public:
  explicit SizePoints(size_t num_sizes);

  // For each point the sizes: first the base, then each size larger alone, then two points that check what was found.
  const std::vector<std::vector<int64_t>>& all() const { return points_; }
  // Adds those that show products of sizes, of all on which an integer depends that has these values so far.
  void add_products(const std::vector<int64_t>& values);
  // Of an unknown size at the base.
  static int64_t base(size_t size);

  // The integer that has these values at the points; nothing if it is another function of the sizes.
  std::optional<Integer> fit(const std::vector<int64_t>& values) const;

 private:
  size_t num_sizes_;
  std::map<std::pair<size_t, size_t>, size_t> products_;  // the point at which both are larger
  std::vector<std::vector<int64_t>> points_;
};

}  // namespace tutti::saved_model
