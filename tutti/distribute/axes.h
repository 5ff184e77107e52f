#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace tutti {

// The axes of a tensor that a reduction goes over besides the replicas: one, several, or none. Negative ones count from
// the last.
class Axes {
 public:
  Axes() = default;
  template <std::integral T>
  Axes(T axis) : axes_{static_cast<int64_t>(axis)} {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}

  bool empty() const { return axes_.empty(); }
  // As numbers in [0, rank). Throws: out_of_range for an axis that a tensor of this rank lacks; invalid_argument for
  // one that is named twice.
  std::vector<int64_t> of_rank(int64_t rank) const;

 private:
  std::vector<int64_t> axes_;
};

}  // namespace tutti
