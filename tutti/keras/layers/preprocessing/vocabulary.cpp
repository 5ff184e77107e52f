#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/core/strings.h"
#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"
#include "tutti/keras/layers/preprocessing/vocabulary_internal.h"

namespace tutti::keras::layers {

Vocabulary::Vocabulary(VocabularyOptions options) : options_(std::move(options)) {
  const auto max_tokens = options_.max_tokens;
  if (!options_.text) options_.text = [](std::string_view token) { return to_string(Strings(token)); };
  if (max_tokens && *max_tokens < 2)
    refuse(str("max_tokens ", *max_tokens, "; it counts the special tokens and must be at least 2"));
  if (options_.pad_to_max_tokens && !max_tokens) refuse("pad_to_max_tokens needs max_tokens");
  if (options_.num_oov_indices < 0)
    refuse(str("num_oov_indices ", options_.num_oov_indices, "; it must not be negative"));
  if (max_tokens && *max_tokens < num_special())
    refuse(str("max_tokens ", *max_tokens, "; the special tokens alone are ", num_special()));
}

void Vocabulary::refuse(const std::string& message, ErrorCode code) const {
  throw Error(code, str(options_.layer, ": ", message));
}

void Vocabulary::require_known() const {
  if (!is_known_)
    refuse("there is no vocabulary; call adapt() or set_vocabulary() first", ErrorCode::failed_precondition);
}

int64_t Vocabulary::id(std::string_view token) const {
  if (is_mask(token)) return options_.mode == OutputMode::int_ ? 0 : kNoId;
  const int64_t number = tokens_.find(token);
  return number == TokenTable::kAbsent ? id_of_unknown(token) : num_special() + number;
}

int64_t Vocabulary::id_of_unknown(std::string_view token) const {
  switch (options_.num_oov_indices) {
    case 0:
      refuse(str("the token ", options_.text(token),
                 " is not in the vocabulary, and num_oov_indices 0 leaves no id for it; set num_oov_indices to 1"));
    case 1: return num_masks();
    default: return num_masks() + options_.oov_bucket(token, options_.num_oov_indices);
  }
}

std::string_view Vocabulary::token(int64_t id) const {
  if (id == 0 && num_masks() == 1) return *options_.mask_token;
  const bool is_known = id >= num_special() && id < size();
  return is_known ? tokens_[id - num_special()] : std::string_view(options_.oov_token);
}

std::vector<std::string> Vocabulary::special_tokens() const {
  std::vector<std::string> tokens(static_cast<size_t>(num_special()), options_.oov_token);
  if (num_masks() == 1) tokens.front() = *options_.mask_token;
  return tokens;
}

std::vector<std::string> Vocabulary::tokens(bool include_special_tokens) const {
  std::vector<std::string> tokens;
  if (include_special_tokens) tokens = special_tokens();
  for (int64_t number = 0; number < tokens_.size(); ++number) tokens.emplace_back(tokens_[number]);
  return tokens;
}

void Vocabulary::prepend_mean_weight() {
  if (idf_weights_.empty()) return;
  const double sum = std::accumulate(idf_weights_.begin(), idf_weights_.end(), 0.0);
  idf_weights_.insert(idf_weights_.begin(), static_cast<size_t>(num_special()),
                      static_cast<float>(sum / static_cast<double>(idf_weights_.size())));
}

void Vocabulary::learn(const TokenCounts& counts) {
  std::optional<int64_t> limit;
  if (options_.max_tokens) limit = *options_.max_tokens - num_special();
  std::vector<std::string> ignored{options_.oov_token};
  if (options_.mask_token) ignored.push_back(*options_.mask_token);
  const auto learned = counts.most_frequent(ignored, limit);
  if (learned.empty() && limit != 0)
    refuse(str("adapt() found no token in ", counts.num_documents(), " documents"), ErrorCode::failed_precondition);
  tokens_ = {};
  idf_weights_.clear();
  const auto num_documents = static_cast<double>(counts.num_documents());
  for (const auto& [token, occurrences, documents] : learned) {
    tokens_.insert(token);
    if (has_weights())
      idf_weights_.push_back(static_cast<float>(std::log(1 + num_documents / static_cast<double>(1 + documents))));
  }
  prepend_mean_weight();
  is_known_ = true;
}

void Vocabulary::set(std::span<const std::string> vocabulary, std::span<const float> idf_weights) {
  if (vocabulary.empty()) refuse("the vocabulary is empty");
  check_weights(vocabulary, idf_weights);
  const std::vector<std::string> special = special_tokens();
  const auto front = vocabulary.first(std::min(vocabulary.size(), special.size()));
  const bool has_special_tokens = std::ranges::equal(front, special);
  tokens_ = table_of(vocabulary.subspan(has_special_tokens ? front.size() : 0));
  idf_weights_.assign(idf_weights.begin(), idf_weights.end());
  if (!has_special_tokens) prepend_mean_weight();
  is_known_ = true;
}

void Vocabulary::check_weights(std::span<const std::string> vocabulary, std::span<const float> idf_weights) const {
  if (!has_weights() && !idf_weights.empty()) refuse("idf_weights are for OutputMode::tf_idf only");
  if (has_weights() && idf_weights.empty())
    refuse("a vocabulary for OutputMode::tf_idf needs idf_weights, one for each token");
  if (has_weights() && idf_weights.size() != vocabulary.size())
    refuse(str(idf_weights.size(), " idf_weights for a vocabulary of ", vocabulary.size(),
               " tokens; there must be one for each"));
}

TokenTable Vocabulary::table_of(std::span<const std::string> tokens) const {
  TokenTable table;
  for (const std::string& token : tokens) {
    if (is_mask(token) || (options_.invert && token == options_.oov_token))
      refuse(str("the vocabulary has the special token ", options_.text(token),
                 " among the others; all special ones may stand in front, or none"));
    const int64_t number = table.size();
    if (table.insert(token) != number) refuse(str("the vocabulary has the token ", options_.text(token), " twice"));
  }
  if (options_.max_tokens && num_special() + table.size() > *options_.max_tokens)
    refuse(str("a vocabulary of ", num_special() + table.size(), " tokens, special ones included; ", "max_tokens is ",
               *options_.max_tokens));
  return table;
}

void Vocabulary::save(const std::filesystem::path& path) const {
  require_known();
  const std::vector<std::string> lines = tokens(/*include_special_tokens=*/true);
  for (const std::string& line : lines)
    if (line.find('\n') != std::string::npos)
      refuse(str("the token ", options_.text(line), " has a line feed and cannot be a line of '", path.string(),
                 "'; keep get_vocabulary() in another form"));
  std::ofstream stream(path, std::ios::binary);
  for (const std::string& line : lines) stream << line << '\n';
  if (!stream.flush())
    refuse(str("cannot write the vocabulary '", path.string(), "': ", std::strerror(errno)), ErrorCode::unavailable);
}

void Vocabulary::load(const std::filesystem::path& path, std::span<const float> idf_weights) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    refuse(str("cannot open the vocabulary '", path.string(), "': ", std::strerror(errno)), ErrorCode::not_found);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (stream.bad()) refuse(str("cannot read the vocabulary '", path.string(), "'"), ErrorCode::unavailable);
  set(lines, idf_weights);
}

}  // namespace tutti::keras::layers
