#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct NormalizationOptions {
  std::vector<int64_t> axis = {-1};  // each index along these has a mean of its own; none: one mean for all
  // Both or neither, of one shape: a number for all, or the trailing ones of the kept axes' extents.
  std::optional<Tensor> mean = {};
  std::optional<Tensor> variance = {};
  bool invert = false;  // from normalized numbers back
  std::string name = {};
};

// (x - mean) / max(sqrt(variance), 1e-7), by numbers that adapt() learns or that are given. Those that adapt() learns
// are weights, not trainable: mean and variance [extents of the kept axes], count [] of numbers that each is of.
// Before, they are 0 and 1. A floating-point dtype is kept, others become float32. TF: tf.keras.layers.Normalization
class Normalization : public Layer {
 public:
  // Throws: invalid_argument for mean without variance, or of another shape.
  explicit Normalization(const NormalizationOptions& options = {});

  // Learns mean and variance anew from batches, one at a time, in float64; builds the layer for their shape.
  // Throws: invalid_argument if the options give them, or for a batch of other extents along the kept axes;
  //   failed_precondition if there is no number.
  template <std::ranges::input_range Batches>
  requires std::convertible_to<std::ranges::range_reference_t<Batches>, Tensor>
  void adapt(Batches&& batches) {
    reset_state();
    for (const Tensor& batch : batches) update_state(batch);
    finalize_state();
  }
  void adapt(const Tensor& x);

  // The parts of adapt().
  void reset_state();
  void update_state(const Tensor& batch);
  void finalize_state();

 private:
  class Impl;
  Impl& state() const;
};

}  // namespace tutti::keras::layers
