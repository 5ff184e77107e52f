#include <algorithm>
#include <cmath>

#include "tutti/keras/layers/preprocessing/quantile_summary_internal.h"

namespace tutti::keras::layers {
namespace {

// The piecewise linear function through (xs, ys) at x, constant outside. TF: numpy.interp
double interpolate(double x, const std::vector<float>& xs, const std::vector<float>& ys) {
  const auto above = static_cast<size_t>(std::ranges::upper_bound(xs, x) - xs.begin());
  if (above == 0) return ys.front();
  if (above == xs.size()) return ys.back();
  const double x0 = xs[above - 1], y0 = ys[above - 1];
  return (ys[above] - y0) / (xs[above] - x0) * (x - x0) + y0;
}

}  // namespace

void QuantileSummary::add(std::span<float> numbers) {
  std::ranges::sort(numbers);
  const double step = std::max(static_cast<double>(numbers.size()) / (1 / epsilon_), 1.0);
  Points merged;
  for (auto i = static_cast<size_t>(step - 1); i < numbers.size(); i += static_cast<size_t>(step))
    merged.push_back({numbers[i], static_cast<float>(step)});
  merged.insert(merged.end(), points_.begin(), points_.end());
  std::ranges::stable_sort(merged, {}, &Point::number);
  points_ = compress(merged, epsilon_);
}

std::vector<float> QuantileSummary::boundaries(int64_t num_bins) const {
  std::vector<float> result;
  for (const Point& point : compress(points_, 1 / static_cast<double>(num_bins))) result.push_back(point.number);
  if (!result.empty()) result.pop_back();
  return result;
}

QuantileSummary::Points QuantileSummary::compress(const Points& points, double epsilon) {
  if (static_cast<double>(points.size()) * epsilon < 1) return points;
  std::vector<float> numbers, sums, shares;
  float sum = 0;
  for (const Point& point : points) {
    numbers.push_back(point.number);
    sums.push_back(sum += point.weight);
  }
  for (const float partial : sums) shares.push_back(partial / sum);

  Points compressed;
  double before = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(std::ceil(1 / epsilon)); ++i) {
    const double share = epsilon + static_cast<double>(i) * epsilon;
    const double up_to = interpolate(share, shares, sums);
    compressed.push_back({static_cast<float>(interpolate(share, shares, numbers)), static_cast<float>(up_to - before)});
    before = up_to;
  }
  return compressed;
}

}  // namespace tutti::keras::layers
