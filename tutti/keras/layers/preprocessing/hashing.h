#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "tutti/core/strings.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/hash_salt.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras::layers {

struct HashingOptions {
  int64_t num_bins = 0;  // required; that of mask_value is one of them
  // Text or an integer, as the input is: bin 0 is its own.
  std::variant<std::monostate, std::string, int64_t> mask_value = {};
  std::optional<HashSalt> salt = {};          // SipHash instead of FarmHash
  OutputMode output_mode = OutputMode::int_;  // not tf_idf
  std::string name = {};
};

// The bins of text or integers, by a hash that is the same everywhere; an integer is its decimal digits. As a Layer it
// maps Tensors of an integer dtype; both forms give Tensors on the CPU. No gradient.
// Shapes: x [...] gives bins [...] for int_; [..., num_bins] for one_hot, where an axis of size 1 gives way to it; in
//   the other modes the last axis is a sample and becomes num_bins.
// Dtype:  int64 for int_, else float32.
// Throws: invalid_argument for another dtype, or a mask_value of the other kind.
// TF: tf.keras.layers.Hashing
class Hashing : public Layer {
 public:
  explicit Hashing(const HashingOptions& options);

  using Layer::operator();
  Tensor operator()(const Strings& x) const;

 private:
  class Impl;
  Impl& state() const;
};

}  // namespace tutti::keras::layers
