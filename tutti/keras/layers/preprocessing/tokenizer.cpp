#include <utility>

#include "tutti/keras/layers/preprocessing/tokenizer_internal.h"

namespace tutti::keras::layers {
namespace {

bool is_upper(int byte) { return byte >= 'A' && byte <= 'Z'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_punctuation(int byte) {
  constexpr std::string_view kSigns = R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)";
  return kSigns.find(static_cast<char>(byte)) != std::string_view::npos;
}

std::array<int16_t, 256> standardized_bytes(Standardize standardize) {
  const bool both = standardize == Standardize::lower_and_strip_punctuation;
  const bool lower = both || standardize == Standardize::lower;
  const bool strip = both || standardize == Standardize::strip_punctuation;
  std::array<int16_t, 256> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const int kept = lower && is_upper(byte) ? byte - 'A' + 'a' : byte;
    bytes[static_cast<size_t>(byte)] = static_cast<int16_t>(strip && is_punctuation(byte) ? -1 : kept);
  }
  return bytes;
}

struct CodePoint {
  size_t num_bytes;
  bool valid;
};

// The first code point of a text or, if that is not UTF-8, the longest part of one that stands there, at least a byte.
// Source: The Unicode Standard, tables 3-7 (well-formed sequences) and 3-8 (maximal subparts).
CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t num_bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < num_bytes; ++i) {
    if (i == text.size()) return {i, false};
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < lowest || byte > highest) return {i, false};
    lowest = 0x80;
    highest = 0xBF;
  }
  return {num_bytes, true};
}

}  // namespace

Tokenizer::Tokenizer(const TextVectorizationOptions& options) : options_(options) {
  const auto* standardize = std::get_if<Standardize>(&options.standardize);
  standardized_ = standardized_bytes(standardize ? *standardize : Standardize::none);
}

std::span<const std::string_view> Tokenizer::operator()(std::span<const std::string> texts) {
  text_.clear();
  pieces_.clear();
  for (const std::string& text : texts) {
    const size_t begin = text_.size();
    append_standardized(text);
    split(begin);
  }
  if (!options_.ngrams.widths().empty()) make_ngrams();
  tokens_.clear();
  for (const auto [begin, end] : pieces_) tokens_.push_back(std::string_view(text_).substr(begin, end - begin));
  return tokens_;
}

void Tokenizer::append_standardized(std::string_view text) {
  if (const auto* function = std::get_if<StandardizeFunction>(&options_.standardize)) {
    text_ += (*function)(text);
    return;
  }
  const size_t begin = text_.size();
  text_.resize(begin + text.size());
  char* out = text_.data() + begin;
  for (const char c : text) {
    const int16_t kept = standardized_[static_cast<uint8_t>(c)];
    *out = static_cast<char>(kept);
    out += kept >= 0;
  }
  text_.resize(static_cast<size_t>(out - text_.data()));
}

void Tokenizer::append_piece(std::string_view token) {
  const size_t begin = text_.size();
  text_ += token;
  pieces_.push_back({begin, text_.size()});
}

void Tokenizer::split(size_t begin) {
  if (const auto* function = std::get_if<SplitFunction>(&options_.split)) {
    for (const std::string& token : (*function)(std::string_view(text_).substr(begin))) append_piece(token);
    return;
  }
  switch (std::get<Split>(options_.split)) {
    case Split::none: return pieces_.push_back({begin, text_.size()});
    case Split::whitespace: return split_at_whitespace(begin);
    case Split::character: return split_into_characters(begin);
  }
}

void Tokenizer::split_at_whitespace(size_t begin) {
  const size_t end = text_.size();
  for (size_t at = begin; at < end;) {
    while (at < end && is_space(text_[at])) ++at;
    const size_t first = at;
    while (at < end && !is_space(text_[at])) ++at;
    if (at > first) pieces_.push_back({first, at});
  }
}

void Tokenizer::split_into_characters(size_t begin) {
  const size_t end = text_.size();
  for (size_t at = begin; at < end;) {
    const auto [num_bytes, valid] = first_code_point(std::string_view(text_).substr(at, end - at));
    if (valid)
      pieces_.push_back({at, at + num_bytes});
    else
      append_piece("\uFFFD");
    at += num_bytes;
  }
}

// Writes the tokens once more, with a space between two: a run of them is then a piece of that text.
void Tokenizer::make_ngrams() {
  std::vector<Piece> words = std::exchange(pieces_, {});
  for (Piece& word : words) {
    const size_t begin = text_.size();
    text_.append(text_, word.begin, word.end - word.begin);
    word = {begin, text_.size()};
    text_ += ' ';
  }
  for (const int64_t width : options_.ngrams.widths()) {
    const auto more = static_cast<size_t>(width - 1);
    for (size_t first = 0; first + more < words.size(); ++first)
      pieces_.push_back({words[first].begin, words[first + more].end});
  }
}

}  // namespace tutti::keras::layers
