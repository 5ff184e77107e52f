#pragma once

#include <concepts>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/hash_salt.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras::layers {

// Which of several num_oov_indices an integer has: the rest of its division by them, or by the hash of its digits.
enum class OovMethod { floormod, farmhash };

struct IntegerLookupOptions {
  std::optional<int64_t> max_tokens = {};  // the most that vocabulary_size() may become; at least 2
  int64_t num_oov_indices = 1;             // ids of integers that are not in the vocabulary; 0 refuses them
  std::optional<int64_t> mask_token = {};  // id 0 of int_; the other modes drop it
  int64_t oov_token = -1;                  // what `invert` gives for an id of no integer
  std::optional<std::vector<int64_t>> vocabulary = {};  // instead of adapt(); see set_vocabulary
  std::vector<float> idf_weights = {};                  // of the vocabulary, for tf_idf
  bool invert = false;                                  // from ids to integers
  OutputMode output_mode = OutputMode::int_;
  bool pad_to_max_tokens = false;  // max_tokens columns instead of vocabulary_size()
  OovMethod oov_method = OovMethod::floormod;
  std::optional<HashSalt> salt = {};  // of farmhash: SipHash instead
  std::string name = {};
};

// StringLookup for integers, which are ordered as numbers. As a Layer it maps Tensors of an integer dtype to Tensors on
// the CPU; it has no weights, and the program keeps the vocabulary. No gradient.
// Throws, when called: failed_precondition without a vocabulary; invalid_argument for another dtype, and for an integer
// that is not in the vocabulary if num_oov_indices is 0.
// TF: tf.keras.layers.IntegerLookup
class IntegerLookup : public Layer {
 public:
  // Throws: invalid_argument for options that contradict each other, or a vocabulary that set_vocabulary refuses.
  explicit IntegerLookup(const IntegerLookupOptions& options = {});

  // Learns the vocabulary anew from batches of integers, as StringLookup does. Throws: as it does.
  template <std::ranges::input_range Batches>
  requires std::convertible_to<std::ranges::range_reference_t<Batches>, Tensor>
  void adapt(Batches&& batches) {
    reset_state();
    for (const Tensor& batch : batches) update_state(batch);
    finalize_state();
  }
  // From integers that are all there; of rank 1, each is a document.
  void adapt(const Tensor& integers);

  // The parts of adapt().
  void reset_state();
  void update_state(const Tensor& batch);
  void finalize_state();

  // As TextVectorization has them.
  std::vector<int64_t> get_vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;
  std::vector<float> idf_weights() const;
  void set_vocabulary(const std::vector<int64_t>& vocabulary, const std::vector<float>& idf_weights = {});

 private:
  class Impl;
  Impl& state() const;
};

}  // namespace tutti::keras::layers
