#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/keras/layers/preprocessing/text_vectorization_options.h"
#include "tutti/keras/layers/preprocessing/token_counts_internal.h"
#include "tutti/keras/layers/preprocessing/token_table_internal.h"

namespace tutti::keras::layers {

// Throws an Error of TextVectorization.
[[noreturn]] void refuse_vectorization(const std::string& message, ErrorCode code = ErrorCode::invalid_argument);

// The tokens by id, first the special ones of an output mode, and for tf_idf their weights.
class Vocabulary {
 public:
  Vocabulary(OutputMode mode, std::optional<int64_t> max_tokens);

  // Whether tokens were learned or set.
  bool is_known() const { return is_known_; }
  int64_t size() const { return num_special() + tokens_.size(); }
  // The id of any token but the mask; that of "[UNK]" if it is not in the vocabulary.
  int64_t id(std::string_view token) const;
  std::vector<std::string> tokens(bool include_special_tokens) const;
  // By id; empty but for tf_idf.
  const std::vector<float>& idf_weights() const { return idf_weights_; }

  // See TextVectorization::adapt and set_vocabulary. What is there stays if they throw.
  void learn(const TokenCounts& counts);
  void set(std::span<const std::string> vocabulary, std::span<const float> idf_weights);

 private:
  int64_t num_special() const { return static_cast<int64_t>(special_tokens_.size()); }
  void check_weights(std::span<const std::string> vocabulary, std::span<const float> idf_weights) const;
  TokenTable table_of(std::span<const std::string> tokens) const;

  bool has_weights_;
  std::optional<int64_t> max_tokens_;
  std::vector<std::string> special_tokens_;
  bool is_known_ = false;
  TokenTable tokens_;  // without the special ones
  std::vector<float> idf_weights_;
};

}  // namespace tutti::keras::layers
