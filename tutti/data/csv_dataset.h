#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "tutti/data/dataset.h"

namespace tutti::data {

// What the fields of a column are.
enum class CsvType { int32, int64, float32, float64, string };

// The type of a column, whose fields then must all be there; or the value of a missing field, which tells the type.
using CsvDefault = std::variant<CsvType, int32_t, int64_t, float, double, std::string>;

struct CsvOptions {
  bool header = true;  // whether the first line of each file names its columns; it must be the same in all files
  char field_delim = ',';
  bool use_quote_delim = true;  // whether a field may be put into double quotes; else a quote is like any byte
  std::string na_value = {};    // a field like this is missing, as an empty one is
  // The columns' names instead of the header's. Without either they are "0", "1", …
  std::vector<std::string> column_names = {};
  // The columns that elements have, in this order; none means all.
  std::vector<std::string> select_columns = {};
  // One for each of these columns. None: types are inferred, the first of int32, int64, float32, float64 and string
  // that takes all fields of the first rows, and missing fields are 0 or "". What would be a guess is refused: a column
  // of integers that int64 does not hold, and one without a field among the first 100 * num_rows_for_inference rows
  // (where the files have no more, it is text). A warning names a column of numbers, the first time that one in it has
  // leading zeros ("01234"), which are lost.
  std::vector<CsvDefault> record_defaults = {};
  int64_t num_rows_for_inference = 100;  // and on, up to 100 times as many, until each column has had a field
};

// A row by its columns' names: numbers, and text.
struct CsvRow {
  std::map<std::string, Tensor> numbers = {};
  std::map<std::string, Strings> strings = {};

  auto parts() { return std::tie(numbers, strings); }
};

// The rows of CSV files (RFC 4180), plain or gzip-compressed, one file after the other; columns are scalars. The files
// are sharded by file, and an iterator's state is its file and row. TF: tf.data.experimental.make_csv_dataset, but in
// order, once and not batched.
// Throws: at once for the first file, and for the others when they are reached: not_found; data_loss, with file and
// line, for unmatched quotes, or a row with more or fewer fields than there are columns; invalid_argument for options
// that do not fit the file, a field that is not of its column's type, a missing field without a default, or another
// header; and for a column whose type cannot be inferred, which it names.
Dataset<CsvRow> csv_dataset(std::vector<std::filesystem::path> files, const CsvOptions& options = {});

namespace csv_internal {

// What the parts of T are, in order.
struct Kinds {
  std::vector<bool> is_text = {};

  void leaf(const Tensor&) { is_text.push_back(false); }
  void leaf(const Strings&) { is_text.push_back(true); }
};

graph::NodePtr read_rows(std::vector<std::filesystem::path> files, const CsvOptions& options, const Kinds& kinds);

}  // namespace csv_internal

// The same as a tuple, or a struct with parts(): Tensors and Strings, one for each selected column, in order. A column
// that is Strings here is never taken for numbers. TF: tf.data.experimental.CsvDataset.
template <class T>
Dataset<T> csv_dataset(std::vector<std::filesystem::path> files, const CsvOptions& options = {}) {
  csv_internal::Kinds kinds;
  T example;
  structure::visit(example, kinds);
  return Dataset<T>(csv_internal::read_rows(std::move(files), options, kinds));
}

}  // namespace tutti::data
