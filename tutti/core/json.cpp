#include "tutti/core/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <vector>

#include "tutti/core/str.h"

namespace tutti {
namespace {

bool is_space(char c) { return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r'); }
// Of ASCII, and meaning itself in a string.
bool is_plain(char c) { return c >= ' ' && static_cast<unsigned char>(c) < 0x80 && c != '"' && c != '\\'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(char c) {
  if (c >= ' ' && c <= '~') return str("'", c, "'");
  return str("byte ", static_cast<int>(static_cast<unsigned char>(c)));
}

void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](uint32_t shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

// Bytes of the UTF-8 sequence at the front; 0 if there is none.
size_t utf8_length(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < bytes.size() && at(i) >= low && at(i) <= high;
  };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  if (first < 0xe0) return tail(1) ? 2 : 0;
  if (first < 0xf0) {
    const bool second = tail(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && tail(2) ? 3 : 0;
  }
  const bool second = tail(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
  return second && tail(2) && tail(3) ? 4 : 0;
}

}  // namespace

void JsonReader::fail(const std::string& what, ErrorCode code) const {
  throw Error(code, str(source_, ": byte ", at_, ": ", what));
}

void JsonReader::fail_expected(const char* what) const { fail(str("expected ", what, ", found ", shown(text_[at_]))); }

inline char JsonReader::peek() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  if (at_ == text_.size()) fail("the text ends in the middle");
  return text_[at_];
}

inline void JsonReader::expect(char c) {
  const char quoted[] = {'\'', c, '\'', '\0'};
  if (peek() != c) fail_expected(quoted);
  ++at_;
}

// After a value: whether another one follows.
inline bool JsonReader::next_or(char closing) {
  const char seen = peek();
  if (seen != ',' && seen != closing) fail_expected(closing == '}' ? "',' or '}'" : "',' or ']'");
  ++at_;
  return seen == ',';
}

void JsonReader::object(FunctionRef<void(std::string_view)> member) {
  expect('{');
  if (peek() == '}') return void(++at_);
  const size_t first = keys_.size(), first_decoded = decoded_keys_.size();
  do {
    std::string_view key = text_view();
    if (key.data() == scratch_.data()) key = decoded_keys_.emplace_back(key);
    keys_.push_back(key);
    expect(':');
    member(key);
  } while (next_or('}'));
  check_keys(first);
  keys_.resize(first);
  decoded_keys_.resize(first_decoded);
}

void JsonReader::object(std::string_view what, std::initializer_list<Member> members) {
  expect('{');
  if (peek() == '}') return void(++at_);
  uint64_t seen = 0;
  const Member* next = members.begin();
  do {
    const Member* member = find_member(what, members, next);
    const uint64_t bit = uint64_t{1} << (member - members.begin());
    if (seen & bit) fail(str("the key \"", member->key, "\" comes twice"));
    seen |= bit;
    member->read();
    next = member + 1;
  } while (next_or('}'));
}

// Reads a key as programs write it, "key": without space or escape. False, with nothing read, for anything else.
inline bool JsonReader::skip_key(std::string_view key) {
  const std::string_view rest = text_.substr(at_);
  if (rest.size() < key.size() + 3 || rest[0] != '"' || rest[key.size() + 1] != '"' || rest[key.size() + 2] != ':' ||
      std::memcmp(rest.data() + 1, key.data(), key.size()) != 0)
    return false;
  at_ += key.size() + 3;
  return true;
}

// Reads a key, which mostly is `next` or comes soon after.
const JsonReader::Member* JsonReader::find_member(std::string_view what, std::initializer_list<Member> members,
                                                  const Member* next) {
  for (const Member* member = next; member != members.end(); ++member)
    if (skip_key(member->key)) return member;
  const std::string_view key = text_view();
  const auto* const found = std::ranges::find(members, key, &Member::key);
  if (found == members.end()) fail(str("unknown key \"", key, "\" of ", what));
  expect(':');
  return found;
}

// The keys from this one on differ.
void JsonReader::check_keys(size_t first) {
  constexpr size_t kFew = 16;
  const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(first);
  auto twice = keys_.end();
  if (keys_.size() - first > kFew) {
    std::sort(begin, keys_.end());
    twice = std::adjacent_find(begin, keys_.end());
  } else {
    for (auto key = begin; key != keys_.end() && twice == keys_.end(); ++key)
      if (std::find(begin, key, *key) != key) twice = key;
  }
  if (twice != keys_.end()) fail(str("the key \"", *twice, "\" comes twice"));
}

void JsonReader::array(FunctionRef<void()> element) {
  if (begin_array()) elements_before(std::string_view::npos, element);
}

bool JsonReader::begin_array() {
  expect('[');
  if (peek() != ']') return true;
  ++at_;
  return false;
}

bool JsonReader::elements_before(size_t stop, FunctionRef<void()> element) {
  do {
    element();
    if (!next_or(']')) return true;
  } while (at_ < stop);
  return false;
}

bool JsonReader::at_text() { return peek() == '"'; }
bool JsonReader::at_array() { return peek() == '['; }

void JsonReader::skip(int max_depth) {
  const char first = peek();
  if (first == '"') return void(text_view());
  if (first != '{' && first != '[') {
    for (const std::string_view word : {"true", "false", "null"})
      if (text_.substr(at_, word.size()) == word) return void(at_ += word.size());
    return void(at_ += number_text().size());
  }
  if (max_depth == 0) fail("too many objects and arrays in one another");
  if (first == '{') return object([&](std::string_view) { skip(max_depth - 1); });
  array([&] { skip(max_depth - 1); });
}

std::string_view JsonReader::text_view() {
  expect('"');
  const size_t begin = at_;
  while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
  if (at_ < text_.size() && text_[at_] == '"') return text_.substr(begin, at_++ - begin);
  scratch_.assign(text_, begin, at_ - begin);
  decode_rest(scratch_);
  return scratch_;
}

// To the end of a string that is not all plain.
void JsonReader::decode_rest(std::string& out) {
  while (true) {
    const size_t run = at_;
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    out.append(text_, run, at_ - run);
    if (at_ == text_.size()) fail("the text ends inside a string");
    const char c = text_[at_];
    if (c == '"') return void(++at_);
    if (static_cast<unsigned char>(c) < ' ') fail(str("a control character, ", shown(c), ", inside a string"));
    if (c == '\\') {
      ++at_;
      escape(out);
      continue;
    }
    const size_t length = utf8_length(text_.substr(at_));
    if (length == 0) fail(str("not UTF-8: ", shown(c)));
    out.append(text_, at_, length);
    at_ += length;
  }
}

void JsonReader::escape(std::string& out) {
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ == text_.size()) fail("the text ends inside a string");
  const char name = text_[at_++];
  if (const size_t found = kNames.find(name); found != std::string_view::npos) return void(out += kMeanings[found]);
  if (name != 'u') fail(str("unknown escape ", shown(name)));
  uint32_t code = four_digits();
  if (code >= 0xdc00 && code < 0xe000) fail("half of a surrogate pair");
  if (code >= 0xd800 && code < 0xdc00) {
    if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
    at_ += 2;
    const uint32_t low = four_digits();
    if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(out, code);
}

uint32_t JsonReader::four_digits() {
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) fail("\\u needs four hexadecimal digits");
  at_ += 4;
  return code;
}

// The characters of a number as JSON spells it: from_chars alone would take more.
std::string_view JsonReader::number_text() {
  peek();
  const std::string_view rest = text_.substr(at_);
  size_t length = 0;
  const auto seen = [&](char c) { return length < rest.size() && rest[length] == c; };
  const auto digits = [&] {
    const size_t before = length;
    while (length < rest.size() && is_digit(rest[length])) ++length;
    if (length == before) fail("expected a number");
  };
  if (seen('-')) ++length;
  if (seen('0'))
    ++length;
  else
    digits();
  if (seen('.')) ++length, digits();
  if (seen('e') || seen('E')) {
    ++length;
    if (seen('+') || seen('-')) ++length;
    digits();
  }
  return rest.substr(0, length);
}

int64_t JsonReader::integer() {
  constexpr size_t kMaxDigits = 18;  // that fit for certain
  const bool negative = peek() == '-';
  const size_t first = at_ + (negative ? 1 : 0), end_of_short = std::min(text_.size(), first + kMaxDigits);
  size_t at = first;
  int64_t short_value = 0;
  while (at < end_of_short && is_digit(text_[at])) short_value = 10 * short_value + (text_[at++] - '0');
  const bool starts_well = at == first + 1 || (at > first && text_[first] != '0');
  if (starts_well && at < text_.size() && (text_[at] == ',' || text_[at] == ']' || text_[at] == '}'))
    return at_ = at, negative ? -short_value : short_value;

  const std::string_view digits = number_text();  // one of those that are rare
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(str("expected an integer of 64 bits, found ", digits));
  at_ += digits.size();
  return value;
}

double JsonReader::number() {
  const std::string_view digits = number_text();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(str("expected a number that fits a double, found ", digits));
  at_ += digits.size();
  return value;
}

void JsonReader::end() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  if (at_ < text_.size()) fail_expected("the end");
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string json_text(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  while (true) {
    const auto plain =
        std::ranges::find_if(text, [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; });
    const auto length = static_cast<size_t>(plain - text.begin());
    out.append(text.substr(0, length));
    if (length == text.size()) break;
    if (const char c = text[length]; static_cast<unsigned char>(c) < ' ') {
      out += "\\u00";
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[static_cast<unsigned char>(c) & 15];
    } else {
      out += '\\';
      out += c;
    }
    text.remove_prefix(length + 1);
  }
  return out += '"';
}

std::string json_number(double value) {
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  std::string out(digits.data(), result.ptr);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace tutti
