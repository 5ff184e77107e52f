#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/hash_salt.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras::layers {

struct StringLookupOptions {
  std::optional<int64_t> max_tokens = {};      // the most that vocabulary_size() may become; at least 2
  int64_t num_oov_indices = 1;                 // ids of tokens that are not in the vocabulary; 0 refuses them
  std::optional<std::string> mask_token = {};  // id 0 of int_; the other modes drop it
  std::string oov_token = "[UNK]";             // what `invert` gives for an id of no token
  std::optional<std::vector<std::string>> vocabulary = {};  // instead of adapt(); see set_vocabulary
  std::vector<float> idf_weights = {};                      // of the vocabulary, for tf_idf
  bool invert = false;                                      // from ids to tokens
  OutputMode output_mode = OutputMode::int_;
  bool pad_to_max_tokens = false;      // max_tokens columns instead of vocabulary_size()
  std::optional<HashSalt> salt = {};   // which of several num_oov_indices: by SipHash instead of FarmHash
  std::string name = "string_lookup";  // in errors
};

// Turns tokens into ids, by a vocabulary that adapt() learns or that is given: first the mask_token, if there is one
// and the output mode is int_, then num_oov_indices ids for tokens that are not in the vocabulary, then those that are.
// A shared handle, as TextVectorization is, whose vocabulary follows the same rules; it doesn't touch the text.
// Threads: several may call it at once, but not while the vocabulary changes.
// TF: tf.keras.layers.StringLookup
class StringLookup {
 public:
  // Throws: invalid_argument for options that contradict each other, or a vocabulary that set_vocabulary refuses.
  explicit StringLookup(const StringLookupOptions& options = {});

  // Learns the vocabulary anew from batches of tokens, one at a time: most frequent first, equally frequent ones by
  // their bytes, descending. The last axis of a batch is one document, for the weights of tf_idf.
  // Throws: invalid_argument if the options give a vocabulary; failed_precondition if there is no token.
  template <std::ranges::input_range Batches>
  requires std::convertible_to<std::ranges::range_reference_t<Batches>, Strings>
  void adapt(Batches&& batches) {
    reset_state();
    for (const Strings& batch : batches) update_state(batch);
    finalize_state();
  }
  // From tokens that are all there; of rank 1, each is a document.
  void adapt(const Strings& tokens);

  // The parts of adapt().
  void reset_state();
  void update_state(const Strings& batch);
  void finalize_state();

  // Shapes: tokens [...] give ids [...] for int_; [..., V] for one_hot, where an axis of size 1 gives way to V; in the
  //   other modes the last axis is a sample and becomes V.
  // Dtype:  float32 for tf_idf, else int64; on the CPU.
  // Throws: failed_precondition without a vocabulary; invalid_argument with `invert`, and for a token that is not in
  // the
  //   vocabulary if num_oov_indices is 0.
  Tensor operator()(const Strings& tokens) const;
  // With `invert`: the tokens of ids of an integer dtype. Throws: failed_precondition, invalid_argument.
  Strings operator()(const Tensor& ids) const;

  // As TextVectorization has them.
  std::vector<std::string> get_vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;
  std::vector<float> idf_weights() const;
  void set_vocabulary(const std::vector<std::string>& vocabulary, const std::vector<float>& idf_weights = {});
  void save_vocabulary(const std::filesystem::path& path) const;
  void load_vocabulary(const std::filesystem::path& path, const std::vector<float>& idf_weights = {});

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti::keras::layers
