#include "tutti/export/size_fit.h"

namespace tutti::saved_model {
namespace {

// Nothing else that a program has is likely to be as large, and no two are multiples of one number.
int64_t step_of(size_t size) { return size == 0 ? 2 : 6 + 2 * static_cast<int64_t>(size); }

std::optional<int64_t> quotient(int64_t number, int64_t divisor) {
  if (number % divisor) return {};
  return number / divisor;
}

}  // namespace

// The first few far apart, and none very large where there are many.
int64_t SizePoints::base(size_t size) {
  if (size == 0) return 5;
  return size < 4 ? 19 + 10 * static_cast<int64_t>(size) : 40 + 3 * static_cast<int64_t>(size);
}

SizePoints::SizePoints(size_t num_sizes) : num_sizes_(num_sizes) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < num_sizes; ++i) sizes.push_back(base(i));
  points_.push_back(sizes);
  for (size_t i = 0; i < num_sizes; ++i) {
    points_.push_back(sizes);
    points_.back()[i] += step_of(i);
  }
  if (num_sizes == 0) return;
  for (const int64_t more : {4, 7}) {
    points_.push_back(sizes);
    for (size_t i = 0; i < num_sizes; ++i) points_.back()[i] += more + 3 * static_cast<int64_t>(i);
  }
}

void SizePoints::add_products(const std::vector<int64_t>& values) {
  for (size_t i = 0; i < num_sizes_; ++i) {
    if (values[1 + i] == values[0]) continue;
    for (size_t j = i + 1; j < num_sizes_; ++j) {
      if (values[1 + j] == values[0] || !products_.try_emplace({i, j}, points_.size()).second) continue;
      points_.push_back(points_[1 + i]);
      points_.back()[j] += step_of(j);
    }
  }
}

std::optional<Integer> SizePoints::fit(const std::vector<int64_t>& values) const {
  Integer integer{.constant = values[0]};
  std::vector<int64_t> factors(num_sizes_);
  for (size_t i = 0; i < num_sizes_; ++i) {
    const auto slope = quotient(values[1 + i] - values[0], step_of(i));
    if (!slope) return {};
    factors[i] = *slope;  // also that of its products, at the base
  }
  for (const auto& [sizes, point] : products_) {
    const auto [i, j] = sizes;
    const int64_t mixed = values[point] - values[1 + i] - values[1 + j] + values[0];
    const auto factor = quotient(mixed, step_of(i) * step_of(j));
    if (!factor) return {};
    if (*factor == 0) continue;
    integer.terms.push_back({*factor, {static_cast<int>(i), static_cast<int>(j)}});
    factors[i] -= *factor * base(j);
    factors[j] -= *factor * base(i);
    integer.constant -= *factor * base(i) * base(j);
  }
  for (size_t i = 0; i < num_sizes_; ++i) {
    if (factors[i] == 0) continue;
    integer.terms.push_back({factors[i], {static_cast<int>(i)}});
    integer.constant -= factors[i] * base(i);
  }
  for (size_t point = 0; point < points_.size(); ++point)
    if (value_of(integer, points_[point]) != values[point]) return {};
  return integer;
}

}  // namespace tutti::saved_model
