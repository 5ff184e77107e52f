#include "tutti/data/columns.h"

#include <algorithm>
#include <ostream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

const Tensor& Column::tensor() const {
  if (is_text())
    throw Error(ErrorCode::invalid_argument, str("a column of text was taken for a Tensor: ",
                                                 to_string(std::get<Strings>(value_)), "; ask for its strings()"));
  return std::get<Tensor>(value_);
}

const Strings& Column::strings() const {
  if (!is_text())
    throw Error(ErrorCode::invalid_argument, "a column of numbers was taken for text; ask for its tensor()");
  return std::get<Strings>(value_);
}

std::ostream& operator<<(std::ostream& stream, const Column& column) {
  return column.is_text() ? stream << column.strings() : stream << column.tensor();
}

Columns::Columns(std::initializer_list<std::pair<std::string, Column>> columns) {
  for (const auto& [name, column] : columns) {
    if (contains(name)) throw Error(ErrorCode::invalid_argument, str("Columns: '", name, "' is given twice"));
    set(name, column);
  }
}

Column Columns::at(const std::string& name) const {
  if (const auto found = numbers.find(name); found != numbers.end()) return found->second;
  if (const auto found = strings.find(name); found != strings.end()) return found->second;
  std::string all;
  for (const std::string& other : names()) all += str(all.empty() ? "'" : ", '", other, '\'');
  throw Error(ErrorCode::invalid_argument,
              str("there is no column '", name, "'; there ", all.empty() ? "are none" : "are ", all));
}

void Columns::set(const std::string& name, Column column) {
  numbers.erase(name);
  strings.erase(name);
  if (column.is_text())
    strings[name] = column.strings();
  else
    numbers[name] = column.tensor();
}

Column Columns::extract(const std::string& name) {
  Column column = at(name);
  numbers.erase(name);
  strings.erase(name);
  lengths.erase(name);
  return column;
}

std::vector<std::string> Columns::names() const {
  std::vector<std::string> all;
  for (const auto& [name, column] : numbers) all.push_back(name);
  for (const auto& [name, column] : strings) all.push_back(name);
  std::ranges::sort(all);
  return all;
}

}  // namespace tutti::data
