#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// Reads a text of unknown origin from left to right. What is missing or wrong throws invalid_argument with the caller's
// name, the beginning of the text, and the place.
class TextReader {
 public:
  TextReader(std::string_view caller, std::string_view text);

  bool at_end() const { return position_ == text_.size(); }
  bool at(char c) const { return !at_end() && text_[position_] == c; }
  bool take(std::string_view prefix);
  void expect(std::string_view prefix);
  // Up to the next character of `stops`, or the end.
  std::string_view read_until(std::string_view stops);
  int64_t read_number();
  // Numbers, or words up to a character of `stops`, with commas between; none where the list ends at once.
  std::vector<int64_t> read_numbers();
  std::vector<std::string_view> read_words(std::string_view stops);
  // Everything that is left.
  std::string_view rest() const { return text_.substr(position_); }

  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string_view caller_, text_;
  size_t position_ = 0;
};

}  // namespace tutti
