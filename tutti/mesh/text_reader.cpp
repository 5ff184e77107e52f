#include "tutti/mesh/text_reader.h"

#include <algorithm>
#include <charconv>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr size_t kMaxTextLength = size_t{1} << 20;
constexpr size_t kShownLength = 80;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

TextReader::TextReader(std::string_view caller, std::string_view text) : caller_(caller), text_(text) {
  if (text.size() > kMaxTextLength) fail(str("has ", text.size(), " characters, at most ", kMaxTextLength));
}

bool TextReader::take(std::string_view prefix) {
  if (!rest().starts_with(prefix)) return false;
  position_ += prefix.size();
  return true;
}

void TextReader::expect(std::string_view prefix) {
  if (!take(prefix)) fail(str("lacks \"", prefix, '"'));
}

std::string_view TextReader::read_until(std::string_view stops) {
  const size_t end = std::min(text_.find_first_of(stops, position_), text_.size());
  const std::string_view word = text_.substr(position_, end - position_);
  position_ = end;
  return word;
}

int64_t TextReader::read_number() {
  int64_t number = 0;
  if (at_end() || !is_digit(text_[position_])) fail("has no number");
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
  if (error != std::errc()) fail("has a number that is too large");
  position_ += static_cast<size_t>(end - begin);
  return number;
}

std::vector<int64_t> TextReader::read_numbers() {
  std::vector<int64_t> numbers;
  if (at_end() || !is_digit(text_[position_])) return numbers;
  do numbers.push_back(read_number());
  while (take(","));
  return numbers;
}

std::vector<std::string_view> TextReader::read_words(std::string_view stops) {
  std::vector<std::string_view> words;
  const std::string stops_or_comma = str(stops, ',');
  do words.push_back(read_until(stops_or_comma));
  while (take(","));
  if (words.size() == 1 && words[0].empty()) words.clear();
  return words;
}

void TextReader::fail(const std::string& what) const {
  std::string shown(text_.substr(0, kShownLength));
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (shown.size() < text_.size()) shown += "…";
  throw Error(ErrorCode::invalid_argument, str(caller_, ": \"", shown, "\" ", what, " (at character ", position_, ')'));
}

}  // namespace tutti
