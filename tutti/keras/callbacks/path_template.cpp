#include "tutti/keras/callbacks/path_template.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/number_text.h"

namespace tutti::keras::callbacks {
namespace {

constexpr int kMaxWidth = 99;  // and precision

// Takes a decimal number of at most kMaxWidth from the front; nothing where there is none.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMaxWidth) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

PathTemplate::PathTemplate(std::string text) : text_(std::move(text)) {
  if (text_.empty()) refuse("it is empty");
  std::string literal;
  for (size_t i = 0; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c != '{' && c != '}') {
      literal += c;
    } else if (i + 1 < text_.size() && text_[i + 1] == c) {
      literal += c;
      ++i;
    } else {
      const size_t end = text_.find('}', i);
      if (c == '}' || end == std::string::npos) refuse(str("the brace at ", i, " stands alone"));
      pieces_.push_back({.text = std::exchange(literal, {})});
      pieces_.push_back(parse_place(text_.substr(i + 1, end - i - 1)));
      i = end;
    }
  }
  pieces_.push_back({.text = std::move(literal)});
}

void PathTemplate::refuse(const std::string& reason) const {
  throw Error(ErrorCode::invalid_argument,
              str("Failed to format this callback filepath: \"", text_, "\". Reason: ", reason));
}

PathTemplate::Piece PathTemplate::parse_place(const std::string& place) const {
  const size_t colon = place.find(':');
  Piece piece{.text = place.substr(0, colon), .is_place = true};
  if (piece.text.empty()) refuse("a place has no name");
  if (colon == std::string::npos) return piece;
  std::string_view form = std::string_view(place).substr(colon + 1);
  if (form.starts_with('0')) {
    piece.zeros = true;
    form.remove_prefix(1);
  }
  piece.width = take_number(form).value_or(0);
  bool fits = true;
  if (form.starts_with('.')) {
    form.remove_prefix(1);
    const std::optional<int> precision = take_number(form);
    fits = precision && !form.empty() && form != "d";
    piece.precision = precision.value_or(-1);
  }
  if (!fits || form.size() > 1 || std::string_view("defg").find(form) == std::string_view::npos)
    refuse(str('{', place, "} has another form than [0][width][.precision][type], a type of d, e, f or g"));
  if (!form.empty()) piece.type = form[0];
  return piece;
}

std::filesystem::path PathTemplate::fill(const Numbers& numbers) const {
  std::string path;
  for (const Piece& piece : pieces_) path += piece.is_place ? format(piece, numbers) : piece.text;
  return path;
}

std::string PathTemplate::padded(const Piece& piece, std::string digits) {
  const auto width = static_cast<size_t>(piece.width);
  const size_t at = piece.zeros && digits.starts_with('-') ? 1 : 0;
  if (digits.size() < width) digits.insert(at, width - digits.size(), piece.zeros ? '0' : ' ');
  return digits;
}

// By printf, whose e, f and g are Python's.
std::string PathTemplate::print(const Piece& piece, double number) {
  const std::string format = str(piece.zeros ? "%0*.*" : "%*.*", piece.type);
  const int precision = piece.precision < 0 ? 6 : piece.precision;
  const int size = std::snprintf(nullptr, 0, format.c_str(), piece.width, precision, number);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), piece.width, precision, number);
  text.pop_back();
  return text;
}

std::string PathTemplate::format_whole(const Piece& piece, int64_t number) {
  if (piece.type == 0 || piece.type == 'd') return padded(piece, std::to_string(number));
  return print(piece, static_cast<double>(number));
}

std::string PathTemplate::format(const Piece& piece, const Numbers& numbers) const {
  if (piece.text == "epoch") return format_whole(piece, numbers.epoch);
  if (piece.text == "batch" && numbers.batch) return format_whole(piece, *numbers.batch);
  const auto found = numbers.logs.find(piece.text);
  if (found == numbers.logs.end()) {
    std::string known = numbers.batch ? "epoch, batch" : "epoch";
    for (const auto& [name, value] : numbers.logs) known += ", " + name;
    refuse(str('\'', piece.text, "'; there are: ", known));
  }
  if (piece.type == 'd') refuse(str('\'', piece.text, "' is no whole number; its type may be e, f or g"));
  return piece.type == 0 ? padded(piece, number_text(found->second)) : print(piece, found->second);
}

std::filesystem::path PathTemplate::fixed_folder() const {
  const std::string& first = pieces_[0].text;
  if (pieces_.size() == 1) return std::filesystem::path(first).parent_path();
  const size_t slash = first.rfind('/');
  return slash == std::string::npos ? "" : first.substr(0, slash + 1);
}

}  // namespace tutti::keras::callbacks
