#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras::layers {

struct DiscretizationOptions {
  std::optional<std::vector<float>> bin_boundaries = {};  // ascending; or
  std::optional<int64_t> num_bins = {};                   // equally full ones, which adapt() finds
  double epsilon = 0.01;                                  // of adapt(): the error of a quantile, in (0, 1]
  OutputMode output_mode = OutputMode::int_;              // not tf_idf
  std::string name = {};
};

// The bins of numbers: boundaries {0, 1} make the bins (-inf, 0), [0, 1) and [1, inf), numbered from 0. A NaN is in the
// last bin. It has no weights; the program keeps the boundaries that adapt() found.
// Shapes: x [...] gives bins [...] for int_; [..., B] for one_hot, where an axis of size 1 gives way to B, the number
//   of bins; in the other modes the last axis is a sample and becomes B.
// Dtype:  int64 for int_, else float32. No gradient. Throws: failed_precondition without boundaries.
// TF: tf.keras.layers.Discretization
class Discretization : public Layer {
 public:
  // Throws: invalid_argument unless the options give either boundaries or num_bins.
  explicit Discretization(const DiscretizationOptions& options);

  // Finds the boundaries anew from batches of numbers, one at a time, which it keeps as a summary of about 1 / epsilon
  // quantiles. Fewer numbers than num_bins make fewer bins.
  // Throws: invalid_argument if the options give the boundaries; failed_precondition if there is no number.
  template <std::ranges::input_range Batches>
  requires std::convertible_to<std::ranges::range_reference_t<Batches>, Tensor>
  void adapt(Batches&& batches) {
    reset_state();
    for (const Tensor& batch : batches) update_state(batch);
    finalize_state();
  }
  void adapt(const Tensor& numbers);

  // The parts of adapt().
  void reset_state();
  void update_state(const Tensor& batch);
  void finalize_state();

  // Empty before there are any.
  std::vector<float> bin_boundaries() const;

 private:
  class Impl;
  Impl& state() const;
};

}  // namespace tutti::keras::layers
