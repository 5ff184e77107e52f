#include <algorithm>
#include <cmath>
#include <numeric>

#include "tutti/core/str.h"
#include "tutti/core/strings.h"
#include "tutti/keras/layers/preprocessing/vocabulary_internal.h"

namespace tutti::keras::layers {
namespace {

const std::string kMask;
const std::string kOutOfVocabulary = "[UNK]";

std::vector<std::string> special_tokens_of(OutputMode mode) {
  if (mode == OutputMode::int_) return {kMask, kOutOfVocabulary};
  return {kOutOfVocabulary};
}

// The weight of "[UNK]", which the counts don't tell.
void prepend_mean(std::vector<float>& weights) {
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  weights.insert(weights.begin(), static_cast<float>(mean));
}

}  // namespace

void refuse_vectorization(const std::string& message, ErrorCode code) {
  throw Error(code, "TextVectorization: " + message);
}

Vocabulary::Vocabulary(OutputMode mode, std::optional<int64_t> max_tokens)
    : has_weights_(mode == OutputMode::tf_idf), max_tokens_(max_tokens), special_tokens_(special_tokens_of(mode)) {}

int64_t Vocabulary::id(std::string_view token) const {
  const int64_t number = tokens_.find(token);
  return number == TokenTable::kAbsent ? num_special() - 1 : num_special() + number;
}

std::vector<std::string> Vocabulary::tokens(bool include_special_tokens) const {
  std::vector<std::string> tokens;
  if (include_special_tokens) tokens = special_tokens_;
  for (int64_t number = 0; number < tokens_.size(); ++number) tokens.emplace_back(tokens_[number]);
  return tokens;
}

void Vocabulary::learn(const TokenCounts& counts) {
  std::optional<int64_t> limit;
  if (max_tokens_) limit = *max_tokens_ - num_special();
  const auto learned = counts.most_frequent(std::vector{kMask, kOutOfVocabulary}, limit);
  if (learned.empty() && limit != 0)
    refuse_vectorization(str("adapt() found no token in ", counts.num_documents(), " documents"),
                         ErrorCode::failed_precondition);
  tokens_ = {};
  idf_weights_.clear();
  const auto num_documents = static_cast<double>(counts.num_documents());
  for (const auto& [token, occurrences, documents] : learned) {
    tokens_.insert(token);
    if (has_weights_)
      idf_weights_.push_back(static_cast<float>(std::log(1 + num_documents / static_cast<double>(1 + documents))));
  }
  if (has_weights_) prepend_mean(idf_weights_);
  is_known_ = true;
}

void Vocabulary::set(std::span<const std::string> vocabulary, std::span<const float> idf_weights) {
  if (vocabulary.empty()) refuse_vectorization("the vocabulary is empty");
  check_weights(vocabulary, idf_weights);
  const auto front = vocabulary.first(std::min(vocabulary.size(), special_tokens_.size()));
  const bool has_special_tokens = std::ranges::equal(front, special_tokens_);
  tokens_ = table_of(vocabulary.subspan(has_special_tokens ? front.size() : 0));
  idf_weights_.assign(idf_weights.begin(), idf_weights.end());
  if (has_weights_ && !has_special_tokens) prepend_mean(idf_weights_);
  is_known_ = true;
}

void Vocabulary::check_weights(std::span<const std::string> vocabulary, std::span<const float> idf_weights) const {
  if (!has_weights_ && !idf_weights.empty()) refuse_vectorization("idf_weights are for OutputMode::tf_idf only");
  if (has_weights_ && idf_weights.empty())
    refuse_vectorization("a vocabulary for OutputMode::tf_idf needs idf_weights, one for each token");
  if (has_weights_ && idf_weights.size() != vocabulary.size())
    refuse_vectorization(str(idf_weights.size(), " idf_weights for a vocabulary of ", vocabulary.size(),
                             " tokens; there must be one for each"));
}

TokenTable Vocabulary::table_of(std::span<const std::string> tokens) const {
  TokenTable table;
  for (const std::string& token : tokens) {
    if (token == kMask)
      refuse_vectorization(
          "the vocabulary has an empty token; that is the mask, which may only stand first, before "
          "\"[UNK]\", for OutputMode::int_");
    const int64_t number = table.size();
    if (table.insert(token) != number)
      refuse_vectorization(str("the vocabulary has the token ", to_string(Strings(token)), " twice"));
  }
  if (max_tokens_ && num_special() + table.size() > *max_tokens_)
    refuse_vectorization(str("a vocabulary of ", num_special() + table.size(), " tokens, special ones included; ",
                             "max_tokens is ", *max_tokens_));
  return table;
}

}  // namespace tutti::keras::layers
