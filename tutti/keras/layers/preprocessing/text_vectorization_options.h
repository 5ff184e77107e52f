#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tutti/keras/layers/preprocessing/ngrams.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras {

// What is done to a text before it is split. Letters are the 26 of ASCII and punctuation its 32 signs, which are
// removed ("don't" becomes "dont"); all other bytes stay as they are.
enum class Standardize { none, lower, strip_punctuation, lower_and_strip_punctuation };

// Where a text is cut into tokens: nowhere, at runs of ASCII white space, or into the code points of UTF-8. Bytes that
// are not UTF-8 stay as they are but for `character`, where each maximal part of a broken code point becomes U+FFFD.
enum class Split { none, whitespace, character };

// Functions of the user's instead; several threads may call them at once.
using StandardizeFunction = std::function<std::string(std::string_view text)>;
using SplitFunction = std::function<std::vector<std::string>(std::string_view text)>;

namespace layers {

struct TextVectorizationOptions {
  std::optional<int64_t> max_tokens = {};  // the most that vocabulary_size() may become; at least 2
  std::variant<Standardize, StandardizeFunction> standardize = Standardize::lower_and_strip_punctuation;
  std::variant<Split, SplitFunction> split = Split::whitespace;
  Ngrams ngrams = {};
  OutputMode output_mode = OutputMode::int_;           // not one_hot
  std::optional<int64_t> output_sequence_length = {};  // of int_: cuts and pads to this; else as long as the longest
  bool pad_to_max_tokens = false;                      // max_tokens columns instead of vocabulary_size()
  std::optional<std::vector<std::string>> vocabulary = {};  // instead of adapt(); see set_vocabulary
  std::vector<float> idf_weights = {};                      // of the vocabulary, for tf_idf
};

}  // namespace layers
}  // namespace tutti::keras
