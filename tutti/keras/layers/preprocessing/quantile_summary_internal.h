#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::keras::layers {

// A sketch of many numbers: some of them in ascending order, and how many each stands for. Its arithmetic, in float32
// and float64 by turns, is Keras's, so that the boundaries are Keras's. TF: keras.layers.Discretization's summary
class QuantileSummary {
 public:
  // epsilon: the share of all numbers that one of the summary may stand for.
  explicit QuantileSummary(double epsilon) : epsilon_(epsilon) {}

  bool empty() const { return points_.empty(); }

  // Takes in numbers, which it sorts.
  void add(std::span<float> numbers);

  // What separates num_bins equally full bins; fewer of them if the summary has fewer points.
  std::vector<float> boundaries(int64_t num_bins) const;

 private:
  struct Point {
    float number;
    float weight;
  };
  using Points = std::vector<Point>;

  static Points compress(const Points& points, double epsilon);

  double epsilon_;
  Points points_;
};

}  // namespace tutti::keras::layers
