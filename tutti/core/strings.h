#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// Text in the shape of a tensor, row-major: what a tf.string tensor is. The bytes are UTF-8 by convention and kept as
// they are. An immutable value: copies and rows share their text.
class Strings {
 public:
  // One empty string, of shape [].
  Strings() : Strings(std::string()) {}
  // Of shape [].
  Strings(std::string value);
  Strings(std::string_view value) : Strings(std::string(value)) {}
  Strings(const char* value) : Strings(std::string(value)) {}
  // Of shape [n].
  explicit Strings(std::vector<std::string> values);
  // Throws: invalid_argument for a negative size, or a shape of another number of strings.
  Strings(std::vector<std::string> values, std::vector<int64_t> shape);

  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  // How many strings there are.
  int64_t size() const { return size_; }
  // In row-major order.
  std::span<const std::string> values() const { return {text_->data() + first_, static_cast<size_t>(size_)}; }
  const std::string& operator[](int64_t index) const { return values()[static_cast<size_t>(index)]; }
  // The only string. Throws: invalid_argument if there are more, or none.
  const std::string& item() const;

  // One row, without the first axis; consecutive rows. They share the text. Throws: invalid_argument for a scalar,
  // out_of_range for rows that are not there.
  Strings row(int64_t index) const;
  Strings rows(int64_t first, int64_t count) const;

  // The same text in another shape. Throws: invalid_argument if that has another number of strings.
  Strings reshape(std::vector<int64_t> shape) const;

  friend bool operator==(const Strings& a, const Strings& b);

 private:
  std::shared_ptr<const std::vector<std::string>> text_;
  int64_t first_ = 0;  // in text_
  int64_t size_ = 0;
  std::vector<int64_t> shape_;
};

// The values along a new first axis. Throws: invalid_argument for none, or for unequal shapes.
Strings stack(std::span<const Strings> values);
// The rows of all values. Throws: invalid_argument for none, scalars, or rows of unequal shapes.
Strings concatenate(std::span<const Strings> values);

// ["a", "b"]: quoted, nested by shape, at most the first and last three of an axis.
std::string to_string(const Strings& strings);
std::ostream& operator<<(std::ostream& stream, const Strings& strings);

}  // namespace tutti
