#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"
#include "tutti/keras/layers/preprocessing/token_counts_internal.h"
#include "tutti/keras/layers/preprocessing/token_table_internal.h"

namespace tutti::keras::layers {

struct VocabularyOptions {
  std::string layer;  // as errors name it
  OutputMode mode = OutputMode::int_;
  std::optional<int64_t> max_tokens = {};  // special ones included; at least 2
  bool pad_to_max_tokens = false;
  std::optional<std::string> mask_token = {};  // id 0 of int_; the other modes drop it
  std::string oov_token = "[UNK]";             // stands for all tokens that are not in the vocabulary
  int64_t num_oov_indices = 1;                 // ids for them; 0 refuses them
  bool invert = false;                         // ids are looked up: oov_token may be no token
  // Which of several ids a token has that is not in the vocabulary: one of [0, num_oov_indices).
  std::function<int64_t(std::string_view token, int64_t num_oov_indices)> oov_bucket = {};
  // How errors write a token.
  std::function<std::string(std::string_view token)> text = {};
};

// The tokens by id, first the special ones, and for tf_idf their weights.
class Vocabulary {
 public:
  // Throws: invalid_argument for options that contradict each other.
  explicit Vocabulary(VocabularyOptions options);

  // Whether tokens were learned or set.
  bool is_known() const { return is_known_; }
  // Throws: failed_precondition if not.
  void require_known() const;

  int64_t size() const { return num_special() + tokens_.size(); }
  // max_tokens if the columns are padded to it.
  int64_t num_columns() const { return options_.pad_to_max_tokens ? *options_.max_tokens : size(); }

  // The id of a token; kNoId for a mask that the mode drops. Throws: invalid_argument for a token that is not in the
  // vocabulary, if there is no id for such tokens.
  int64_t id(std::string_view token) const;
  // The token of an id; that which stands for all others if there is none.
  std::string_view token(int64_t id) const;
  std::vector<std::string> tokens(bool include_special_tokens) const;
  // By id; empty but for tf_idf.
  const std::vector<float>& idf_weights() const { return idf_weights_; }

  // See TextVectorization::adapt, set_vocabulary, save_vocabulary and load_vocabulary. What is there stays if they
  // throw.
  void learn(const TokenCounts& counts);
  void set(std::span<const std::string> vocabulary, std::span<const float> idf_weights);
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path, std::span<const float> idf_weights);

  // Throws an Error of the layer.
  [[noreturn]] void refuse(const std::string& message, ErrorCode code = ErrorCode::invalid_argument) const;

 private:
  bool has_weights() const { return options_.mode == OutputMode::tf_idf; }
  bool is_mask(std::string_view token) const { return options_.mask_token && token == *options_.mask_token; }
  int64_t num_masks() const { return options_.mask_token && options_.mode == OutputMode::int_ ? 1 : 0; }
  int64_t num_special() const { return num_masks() + options_.num_oov_indices; }
  int64_t id_of_unknown(std::string_view token) const;
  std::vector<std::string> special_tokens() const;
  // The weights of tokens that are in no count: the mean of the others.
  void prepend_mean_weight();
  void check_weights(std::span<const std::string> vocabulary, std::span<const float> idf_weights) const;
  TokenTable table_of(std::span<const std::string> tokens) const;

  VocabularyOptions options_;
  bool is_known_ = false;
  TokenTable tokens_;  // without the special ones
  std::vector<float> idf_weights_;
};

}  // namespace tutti::keras::layers
