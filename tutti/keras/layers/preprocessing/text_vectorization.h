#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/text_vectorization_options.h"

namespace tutti::keras::layers {

// Turns texts into tensors, by a vocabulary that adapt() learns or that is given. A shared handle: copies have the same
// vocabulary. It is no Layer, since a Layer maps a Tensor to a Tensor and can be a part of a model.
// Threads: several may call it at once, but not while the vocabulary changes.
// TF: tf.keras.layers.TextVectorization
class TextVectorization {
 public:
  // Throws: invalid_argument for options that contradict each other, or a vocabulary that set_vocabulary refuses.
  explicit TextVectorization(const TextVectorizationOptions& options = {});

  // Learns the vocabulary anew from batches of texts (a Dataset<Strings>, a vector of Strings, …), one at a time: the
  // tokens but for "" and "[UNK]", most frequent first, equally frequent ones by their bytes, descending. For tf_idf
  // the weight of a token that df of N documents have is ln(1 + N / (1 + df)), that of "[UNK]" the mean of all.
  // Throws: invalid_argument if the options give a vocabulary; failed_precondition if there is no token.
  template <std::ranges::input_range Batches>
  requires std::convertible_to<std::ranges::range_reference_t<Batches>, Strings>
  void adapt(Batches&& batches) {
    reset_state();
    for (const Strings& batch : batches) update_state(batch);
    finalize_state();
  }
  // Of documents that are all there; a scalar is one document.
  void adapt(const Strings& documents);

  // The parts of adapt(). Without `split` a row along the last axis is one document, else each text is.
  void reset_state();
  void update_state(const Strings& batch);
  void finalize_state();

  // Shapes: text [...] or [..., 1] gives [..., L] for int_, L the longest or output_sequence_length, and [..., V] for
  //   the other modes, of text [], [N] or [N, 1]. Without `split` the texts are the tokens: the last axis of text
  //   becomes L or V.
  // Dtype:  float32 for tf_idf, else int64; on the CPU.
  // Throws: failed_precondition without a vocabulary, invalid_argument for another shape.
  Tensor operator()(const Strings& text) const;

  // The ids of each row of int_, as many as it has; output_sequence_length cuts only. TF: ragged=True
  std::vector<Tensor> ragged(const Strings& text) const;

  // The tokens by id. Before there is a vocabulary, the special ones alone: "" (int_ only) and "[UNK]".
  std::vector<std::string> get_vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;
  // One for each id, for tf_idf; empty for other modes.
  std::vector<float> idf_weights() const;

  // Takes a vocabulary, with or without the special tokens in front. For tf_idf it needs as many weights; without
  // special tokens the mean is that of "[UNK]".
  // Throws: invalid_argument for no token, one that comes twice, "" among them, more than max_tokens, or weights that
  //   are missing, too few or too many, or not for tf_idf.
  void set_vocabulary(const std::vector<std::string>& vocabulary, const std::vector<float>& idf_weights = {});

  // A file with a token per line, special tokens included; it knows no weights. Any file of one token per line loads.
  // Throws: failed_precondition without a vocabulary, invalid_argument for a token with a line feed and for what
  //   set_vocabulary refuses, not_found and unavailable for a file that cannot be read or written.
  void save_vocabulary(const std::filesystem::path& path) const;
  void load_vocabulary(const std::filesystem::path& path, const std::vector<float>& idf_weights = {});

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti::keras::layers
