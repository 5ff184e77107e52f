#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/data/csv_dataset.h"

namespace tutti::data {

// One named column: numbers, or text. A Tensor where one is asked for.
class Column {
 public:
  Column() = default;
  Column(Tensor numbers) : value_(std::move(numbers)) {}
  Column(Strings text) : value_(std::move(text)) {}

  bool is_text() const { return std::holds_alternative<Strings>(value_); }
  // Throw: invalid_argument for a column of the other kind.
  const Tensor& tensor() const;
  const Strings& strings() const;
  operator const Tensor&() const { return tensor(); }
  operator const Strings&() const { return strings(); }

 private:
  std::variant<Tensor, Strings> value_;
};

std::ostream& operator<<(std::ostream& stream, const Column& column);

// Values by name, the features of a batch: an element of a dataset.
//
//   from_tensor_slices(Columns{{"age", age}, {"district", district}}, price)
struct Columns {
  Columns() = default;
  Columns(std::initializer_list<std::pair<std::string, Column>> columns);
  Columns(CsvRow row) : numbers(std::move(row.numbers)), strings(std::move(row.strings)) {}

  std::map<std::string, Tensor> numbers = {};
  std::map<std::string, Strings> strings = {};
  // Of columns with any number of values in each row, padded at its end: int64 [batch], how many there are.
  std::map<std::string, Tensor> lengths = {};

  auto parts() { return std::tie(numbers, strings, lengths); }

  // Throws: invalid_argument, with the names that there are, for another one.
  Column at(const std::string& name) const;
  bool contains(const std::string& name) const { return numbers.contains(name) || strings.contains(name); }
  void set(const std::string& name, Column column);
  // Takes a column out and returns it. Throws: as at().
  Column extract(const std::string& name);
  // In the order of the alphabet.
  std::vector<std::string> names() const;
  size_t size() const { return numbers.size() + strings.size(); }
};

}  // namespace tutti::data
