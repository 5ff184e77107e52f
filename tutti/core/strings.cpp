#include "tutti/core/strings.h"

#include <algorithm>
#include <ostream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

int64_t count_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0) throw Error(ErrorCode::invalid_argument, str("Strings: shape ", str_list(shape), " is negative"));
    if (__builtin_mul_overflow(count, size, &count))
      throw Error(ErrorCode::invalid_argument, str("Strings: shape ", str_list(shape), " is larger than 2^63"));
  }
  return count;
}

void check_count(int64_t count, std::span<const int64_t> shape) {
  if (count_of(shape) != count)
    throw Error(ErrorCode::invalid_argument,
                str("Strings: ", count, " strings do not fill the shape ", str_list(shape)));
}

std::span<const int64_t> row_shape(const Strings& strings) { return std::span(strings.shape()).subspan(1); }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

Strings::Strings(std::string value) : Strings(std::vector{std::move(value)}, {}) {}

Strings::Strings(std::vector<std::string> values)
    : text_(std::make_shared<const std::vector<std::string>>(std::move(values))),
      size_(static_cast<int64_t>(text_->size())),
      shape_{size_} {}

Strings::Strings(std::vector<std::string> values, std::vector<int64_t> shape) : Strings(std::move(values)) {
  check_count(size_, shape);
  shape_ = std::move(shape);
}

const std::string& Strings::item() const {
  if (size_ != 1)
    throw Error(ErrorCode::invalid_argument, str("Strings::item: shape ", str_list(shape_), " is not one string"));
  return values().front();
}

Strings Strings::row(int64_t index) const {
  Strings row = rows(index, 1);
  row.shape_.erase(row.shape_.begin());
  return row;
}

Strings Strings::rows(int64_t first, int64_t count) const {
  if (shape_.empty()) throw Error(ErrorCode::invalid_argument, "Strings: a scalar has no rows");
  if (first < 0 || count < 0 || first > shape_[0] - count)
    throw Error(ErrorCode::out_of_range,
                str("Strings: ", count, " rows from row ", first, " on, of shape ", str_list(shape_)));
  const int64_t row_size = count_of(row_shape(*this));
  Strings rows = *this;
  rows.first_ = first_ + first * row_size;
  rows.size_ = count * row_size;
  rows.shape_[0] = count;
  return rows;
}

Strings Strings::reshape(std::vector<int64_t> shape) const {
  check_count(size_, shape);
  Strings result = *this;
  result.shape_ = std::move(shape);
  return result;
}

bool operator==(const Strings& a, const Strings& b) {
  return a.shape_ == b.shape_ && std::ranges::equal(a.values(), b.values());
}

Strings stack(std::span<const Strings> values) {
  if (values.empty()) throw Error(ErrorCode::invalid_argument, "stack: no strings");
  std::vector<std::string> text;
  for (const Strings& value : values) {
    if (value.shape() != values.front().shape())
      throw Error(ErrorCode::invalid_argument, str("stack: strings of shapes ", str_list(values.front().shape()),
                                                   " and ", str_list(value.shape()), "; they must agree"));
    text.insert(text.end(), value.values().begin(), value.values().end());
  }
  std::vector<int64_t> shape = values.front().shape();
  shape.insert(shape.begin(), static_cast<int64_t>(values.size()));
  return Strings(std::move(text), std::move(shape));
}

Strings concatenate(std::span<const Strings> values) {
  if (values.empty()) throw Error(ErrorCode::invalid_argument, "concatenate: no strings");
  std::vector<std::string> text;
  int64_t rows = 0;
  for (const Strings& value : values) {
    if (value.rank() == 0 || values.front().rank() == 0 ||
        !std::ranges::equal(row_shape(value), row_shape(values.front())))
      throw Error(ErrorCode::invalid_argument, str("concatenate: strings of shapes ", str_list(values.front().shape()),
                                                   " and ", str_list(value.shape()), "; their rows must agree"));
    text.insert(text.end(), value.values().begin(), value.values().end());
    rows += value.shape()[0];
  }
  std::vector<int64_t> shape = values.front().shape();
  shape[0] = rows;
  return Strings(std::move(text), std::move(shape));
}

std::string to_string(const Strings& strings) {
  if (strings.rank() == 0) return quoted(strings.item());
  constexpr int64_t kEdge = 3;
  const int64_t rows = strings.shape()[0];
  std::string text = "[";
  for (int64_t i = 0; i < rows; ++i) {
    if (i > 0) text += ", ";
    if (rows > 2 * kEdge && i == kEdge) {
      text += "..., ";
      i = rows - kEdge;
    }
    text += to_string(strings.row(i));
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& stream, const Strings& strings) { return stream << to_string(strings); }

}  // namespace tutti
