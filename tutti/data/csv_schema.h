#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/data/csv_dataset.h"

namespace tutti::data {

// A column that elements have.
struct CsvColumn {
  std::string name;
  size_t index = 0;  // among the fields of a row
  CsvType type = CsvType::int32;
  std::optional<graph::Leaf> missing = {};  // what stands for a missing field; none: that is an error
  // Of numbers whose type was inferred: whether warn_of_leading_zeros() has warned. Else null.
  std::shared_ptr<std::atomic_flag> warned = nullptr;
};

// How the rows of files become elements.
struct CsvSchema {
  CsvOptions options;
  std::vector<std::string> names;  // of all columns
  std::vector<CsvColumn> columns;  // those that elements have
  bool inferred = false;           // whether the types were
};

// The schema of files, from the options, the header of the first file and, if types are to be inferred, the first rows.
// kinds: whether each part is text, if the element's type says so; its columns are then strings.
// Throws: as csv_dataset.
CsvSchema csv_schema(const std::vector<std::filesystem::path>& files, const CsvOptions& options,
                     const std::optional<csv_internal::Kinds>& kinds);

// Puts the number that the field is where `to` points; false if it is none of this type, which is not string.
bool parse_csv_number(const std::string& field, CsvType type, void* to);

// Whether the field is an integer as "007", whose zeros no number keeps; and a warning that this column has it, once.
bool has_leading_zeros(std::string_view field);
void warn_of_leading_zeros(const CsvColumn& column, const std::string& field);

// Whether a field counts as missing.
inline bool is_missing(const std::string& field, const CsvOptions& options) {
  return field.empty() || field == options.na_value;
}

const char* to_string(CsvType type);
at::ScalarType dtype_of(CsvType type);  // not of string

}  // namespace tutti::data
