#include "tutti/files/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {
namespace {

constexpr size_t kMaxAxes = 64;
constexpr size_t kAlignment = 64;  // of the elements in the file, in bytes

constexpr std::array<std::pair<std::string_view, c10::ScalarType>, 14> kTypes{{
    {"b1", c10::ScalarType::Bool},
    {"u1", c10::ScalarType::Byte},
    {"u2", c10::ScalarType::UInt16},
    {"u4", c10::ScalarType::UInt32},
    {"u8", c10::ScalarType::UInt64},
    {"i1", c10::ScalarType::Char},
    {"i2", c10::ScalarType::Short},
    {"i4", c10::ScalarType::Int},
    {"i8", c10::ScalarType::Long},
    {"f2", c10::ScalarType::Half},
    {"f4", c10::ScalarType::Float},
    {"f8", c10::ScalarType::Double},
    {"c8", c10::ScalarType::ComplexFloat},
    {"c16", c10::ScalarType::ComplexDouble},
}};

// Recursive descent over the one form of dictionary that numpy writes, a literal of Python.
class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      value(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    pass_blanks();
    if (!text_.empty()) fail("nothing behind '}'");
    if (!has_descr_ || !has_order_ || !has_shape_) fail("the keys 'descr', 'fortran_order' and 'shape'");
    return std::move(header_);
  }

 private:
  void value(std::string_view key) {
    if (key == "descr" && !std::exchange(has_descr_, true)) return read_descr();
    if (key == "fortran_order" && !std::exchange(has_order_, true)) return read_order();
    if (key == "shape" && !std::exchange(has_shape_, true)) return read_shape();
    fail("each of the keys 'descr', 'fortran_order' and 'shape', once");
  }

  void read_descr() {
    pass_blanks();
    if (text_.starts_with('['))
      throw Error(ErrorCode::unimplemented, file_ + " has a structured dtype; save each field as an array of its own");
    const std::string_view descr = string();
    if (descr.size() < 2) fail("a dtype such as '<f4'");
    const char order = descr.front();
    const auto* type = std::ranges::find(kTypes, descr.substr(1), &std::pair<std::string_view, c10::ScalarType>::first);
    if ((order != '<' && order != '>' && order != '|') || type == kTypes.end())
      throw Error(ErrorCode::unimplemented,
                  str(file_, " has the dtype '", printable(descr), "'; LibTorch has none like it, convert the array"));
    header_.dtype = type->second;
    const bool one_byte = descr.ends_with('1');
    if (order == '|' && !one_byte) fail("'<' or '>' in front of a dtype of several bytes");
    header_.big_endian = order == '>' && !one_byte;
  }

  void read_order() {
    pass_blanks();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        header_.fortran_order = value;
        return;
      }
    fail("True or False");
  }

  // A tuple: (), (2,), (2, 3) or (2, 3,).
  void read_shape() {
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("',' or ')'");
      if (header_.shape.size() == kMaxAxes) fail(str("at most ", kMaxAxes, " axes"));
      header_.shape.push_back(number());
      comma = accept(',');
    }
    if (header_.shape.size() == 1 && !comma) fail("',' behind the only size");
  }

  int64_t number() {
    pass_blanks();
    int64_t value = 0;
    const char* const first = text_.data();
    const auto [end, error] = std::from_chars(first, first + text_.size(), value);
    if (error != std::errc() || value < 0) fail("a size from 0 to 2^63 - 1");
    text_.remove_prefix(static_cast<size_t>(end - first));
    return value;
  }

  std::string_view string() {
    pass_blanks();
    const char quote = text_.empty() ? '\0' : text_.front();
    const size_t end = text_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == text_.npos) fail("a string");
    const std::string_view value = text_.substr(1, end - 1);
    if (value.find('\\') != value.npos) fail("a string without escapes");
    text_.remove_prefix(end + 1);
    return value;
  }

  bool accept(char token) {
    pass_blanks();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char token) {
    if (!accept(token)) fail(str('\'', token, '\''));
  }

  void pass_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n\r"), text_.size())); }

  static std::string printable(std::string_view text) {
    std::string result(text.substr(0, 40));
    std::ranges::replace_if(
        result, [](char c) { return c < ' ' || c > '~'; }, '?');
    return result;
  }

  [[noreturn]] void fail(const std::string& required) const {
    throw Error(ErrorCode::data_loss,
                str(file_, " has a damaged header: at '", printable(text_), "' it must have ", required));
  }

  std::string_view text_;  // what is left
  const std::string& file_;
  NpyHeader header_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& file) { return Parser(text, file).parse(); }

std::string npy_header(c10::ScalarType dtype, const std::vector<int64_t>& shape) {
  const auto* type = std::ranges::find(kTypes, dtype, &std::pair<std::string_view, c10::ScalarType>::second);
  if (type == kTypes.end())
    throw Error(ErrorCode::unimplemented, str("npy: numpy has no dtype like ", c10::toString(dtype),
                                              "; convert the tensor, for instance by .to(at::kFloat)"));
  std::string sizes = str_list(shape);  // "[2, 3]"
  sizes = '(' + sizes.substr(1, sizes.size() - 2) + (shape.size() == 1 ? ",)" : ")");
  std::string dictionary = str("{'descr': '", type->first.ends_with('1') ? '|' : '<', type->first,
                               "', 'fortran_order': False, 'shape': ", sizes, ", }");
  // Version 1.0: magic, version, two bytes of length, the dictionary, blanks up to the alignment, a line end.
  const size_t unpadded = kNpyMagic.size() + 4 + dictionary.size() + 1;
  dictionary += std::string((kAlignment - unpadded % kAlignment) % kAlignment, ' ') + '\n';
  const size_t length = dictionary.size();
  return str(kNpyMagic, '\1', '\0', static_cast<char>(length & 0xFF), static_cast<char>(length >> 8), dictionary);
}

}  // namespace tutti::files
