#include "tutti/data/csv_schema.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/data/csv_parser.h"

namespace tutti::data {
namespace {

constexpr std::array kTypes{CsvType::int32, CsvType::int64, CsvType::float32, CsvType::float64, CsvType::string};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, str("csv_dataset: ", what));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// The number that the whole text is; none if it is none or out of range. What is too small for a float is nearly 0.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (end != text.end() || text.empty()) return {};
  if constexpr (std::is_floating_point_v<Number>) {
    if (error == std::errc::result_out_of_range) {
      const double nearest = std::strtod(std::string(text).c_str(), nullptr);
      return std::abs(nearest) < 1 ? std::optional(static_cast<Number>(nearest)) : std::nullopt;
    }
  }
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

template <class Number>
graph::Leaf scalar(Number number) {
  return at::scalar_tensor(number, c10::CppTypeToScalarType<Number>::value);
}

template <class Number>
bool put_number(const std::string& field, void* to) {
  const auto number = parse_number<Number>(field);
  if (number) std::memcpy(to, &*number, sizeof *number);
  return number.has_value();
}

// Whether a column of this type takes the field. "nan" and "inf" are more likely words.
bool takes(CsvType type, const std::string& field) {
  switch (type) {
    case CsvType::int32: return parse_number<int32_t>(field).has_value();
    case CsvType::int64: return parse_number<int64_t>(field).has_value();
    case CsvType::float32: return std::isfinite(parse_number<float>(field).value_or(INFINITY));
    case CsvType::float64: return std::isfinite(parse_number<double>(field).value_or(INFINITY));
    case CsvType::string: return true;
  }
  throw Error(ErrorCode::internal, "CsvType has no such value");
}

std::vector<std::string> column_names(const std::filesystem::path& file, const CsvOptions& options) {
  if (!options.column_names.empty()) return options.column_names;
  CsvParser parser(file, options.field_delim, options.use_quote_delim);
  std::vector<std::string> names;
  if (!parser.next(names))
    throw Error(ErrorCode::data_loss, str("csv_dataset: '", file.string(), "' is empty; ",
                                          options.header ? "its first line is to name the columns"
                                                         : "it is to show how "
                                                           "many columns there are, or column_names"));
  if (!options.header)
    for (size_t i = 0; i < names.size(); ++i) names[i] = str(i);
  return names;
}

std::vector<CsvColumn> selected_columns(const std::vector<std::string>& names, const CsvOptions& options) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < names.size(); ++i)
    if (!index.emplace(names[i], i).second)
      refuse(str("two columns are named '", names[i], "'; give other names as column_names"));
  std::vector<CsvColumn> columns;
  std::set<std::string> selected;
  for (const std::string& name : options.select_columns.empty() ? names : options.select_columns) {
    const auto found = index.find(name);
    if (found == index.end()) refuse(str("select_columns has '", name, "'; the columns are ", str_list(names)));
    if (!selected.insert(name).second) refuse(str("select_columns has '", name, "' twice"));
    columns.push_back({.name = name, .index = found->second});
  }
  return columns;
}

void set_defaults(std::vector<CsvColumn>& columns, const std::vector<CsvDefault>& defaults) {
  if (defaults.size() != columns.size())
    refuse(str(defaults.size(), " record_defaults for ", columns.size(), " columns; one each is required"));
  for (size_t i = 0; i < columns.size(); ++i) {
    if (const auto* type = std::get_if<CsvType>(&defaults[i])) {
      columns[i].type = *type;
      continue;
    }
    columns[i].type = kTypes[defaults[i].index() - 1];
    columns[i].missing = std::visit(
        [](const auto& value) -> graph::Leaf {
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::is_arithmetic_v<Value>) return scalar(value);
          if constexpr (std::is_same_v<Value, std::string>) return Strings(value);
          return {};
        },
        defaults[i]);
  }
}

// A record that is damaged is thrown when its row is read, not here.
bool next_whole(CsvParser& parser, std::vector<std::string>& fields) {
  while (true) try {
      return parser.next(fields);
    } catch (const Error&) {
      if (!parser.goes_on()) return false;
    }
}

// Calls function(fields) for each row of the files until it returns false; returns whether it never did.
template <class Function>
bool all_rows(const std::vector<std::filesystem::path>& files, const CsvOptions& options, const Function& function) {
  std::vector<std::string> fields;
  for (const auto& file : files) {
    CsvParser parser(file, options.field_delim, options.use_quote_delim);
    if (options.header) parser.next(fields);
    while (next_whole(parser, fields))
      if (!function(fields)) return false;
  }
  return true;
}

// The digits of an integer, without its sign; empty for what is none.
std::string_view digits_of(std::string_view field) {
  field = trimmed(field);
  if (field.starts_with('+') || field.starts_with('-')) field.remove_prefix(1);
  return field.find_first_not_of("0123456789") == std::string_view::npos ? field : std::string_view();
}

// What the fields of a column are, of those that were looked at.
struct Seen {
  std::optional<CsvType> type;  // the first that takes all; none: they were all missing
  std::string with_zeros;       // the first integer with leading zeros
  std::string too_large;        // the first integer that int64 does not hold
  bool has_fractions = false;   // or exponents: numbers that are written as no integers

  void add(const std::string& field) {
    while (!takes(type.value_or(CsvType::int32), field))
      type = kTypes[static_cast<size_t>(type.value_or(CsvType::int32)) + 1];
    type = type.value_or(CsvType::int32);
    const bool is_integer = !digits_of(field).empty();
    if (with_zeros.empty() && has_leading_zeros(field)) with_zeros = field;
    if (too_large.empty() && is_integer && !takes(CsvType::int64, field)) too_large = field;
    has_fractions |= !is_integer;
  }
};

// For a column whose fields are all missing, this many times num_rows_for_inference rows are looked at.
constexpr int64_t kTimesForEmpty = 100;

// TF: _infer_column_defaults, where a column without a field in the first rows is text.
std::vector<Seen> look_at_rows(const std::vector<CsvColumn>& columns, const std::vector<std::filesystem::path>& files,
                               const CsvOptions& options) {
  std::vector<Seen> seen(columns.size());
  std::set<size_t> empty;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i].type != CsvType::string) empty.insert(i);
  int64_t rows = 0;
  const bool to_the_end = all_rows(files, options, [&](const std::vector<std::string>& fields) {
    const bool enough = rows >= options.num_rows_for_inference;
    if (enough && (empty.empty() || rows / kTimesForEmpty >= options.num_rows_for_inference)) return false;
    ++rows;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].index >= fields.size()) continue;  // found when the row is read
      const std::string& field = fields[columns[i].index];
      if (columns[i].type == CsvType::string || is_missing(field, options)) continue;
      seen[i].add(field);
      empty.erase(i);
    }
    return true;
  });
  if (to_the_end || empty.empty()) return seen;
  std::vector<std::string> names;
  for (const size_t i : empty) names.push_back(columns[i].name);
  refuse(str("the first ", rows, " rows have no field in the columns ", str_list(names),
             ", so that their types cannot be inferred; give record_defaults, leave them out of select_columns, or set "
             "more num_rows_for_inference"));
}

// Columns that are text already stay it.
void infer_types(std::vector<CsvColumn>& columns, const std::vector<std::filesystem::path>& files,
                 const CsvOptions& options) {
  const std::vector<Seen> seen = look_at_rows(columns, files, options);
  for (size_t i = 0; i < columns.size(); ++i) {
    CsvColumn& column = columns[i];
    if (column.type == CsvType::string) continue;
    column.type = seen[i].type.value_or(CsvType::string);
    if (column.type == CsvType::string) continue;
    if (!seen[i].too_large.empty() && !seen[i].has_fractions)
      refuse(str("column '", column.name, "' has integers that int64 does not hold, as '", seen[i].too_large,
                 "', of which floats would not keep all digits; give record_defaults, with CsvType::string to keep "
                 "them, or with CsvType::float64"));
    column.warned = std::make_shared<std::atomic_flag>();
    if (!seen[i].with_zeros.empty()) warn_of_leading_zeros(column, seen[i].with_zeros);
  }
}

void set_inferred_defaults(std::vector<CsvColumn>& columns) {
  for (CsvColumn& column : columns)
    column.missing =
        column.type == CsvType::string ? graph::Leaf(Strings()) : at::scalar_tensor(0, dtype_of(column.type));
}

void check_kinds(const std::vector<CsvColumn>& columns, const csv_internal::Kinds& kinds) {
  if (kinds.is_text.size() != columns.size())
    refuse(str("the element has ", kinds.is_text.size(), " parts for ", columns.size(),
               " columns; give it one for each, or name the columns in select_columns"));
  for (size_t i = 0; i < columns.size(); ++i)
    if (kinds.is_text[i] != (columns[i].type == CsvType::string))
      refuse(str("column '", columns[i].name, "' is ", to_string(columns[i].type), ", which is no ",
                 kinds.is_text[i] ? "Strings" : "Tensor"));
}

}  // namespace

const char* to_string(CsvType type) {
  constexpr std::array kNames{"int32", "int64", "float32", "float64", "string"};
  return kNames[static_cast<size_t>(type)];
}

bool parse_csv_number(const std::string& field, CsvType type, void* to) {
  switch (type) {
    case CsvType::int32: return put_number<int32_t>(field, to);
    case CsvType::int64: return put_number<int64_t>(field, to);
    case CsvType::float32: return put_number<float>(field, to);
    case CsvType::float64: return put_number<double>(field, to);
    case CsvType::string: break;
  }
  throw Error(ErrorCode::internal, "parse_csv_number: not a type of numbers");
}

bool has_leading_zeros(std::string_view field) {
  if (field.find('0') > field.find_first_of("123456789")) return false;
  const std::string_view digits = digits_of(field);
  return digits.size() > 1 && digits.front() == '0';
}

void warn_of_leading_zeros(const CsvColumn& column, const std::string& field) {
  if (column.warned->test_and_set()) return;
  warn(str("csv_dataset: column '", column.name, "' is inferred to be ", to_string(column.type),
           ", which does not keep the leading zeros of '", field,
           "'; to keep them, give record_defaults with CsvType::string"));
}

at::ScalarType dtype_of(CsvType type) {
  constexpr std::array kDtypes{at::kInt, at::kLong, at::kFloat, at::kDouble};
  return kDtypes.at(static_cast<size_t>(type));
}

CsvSchema csv_schema(const std::vector<std::filesystem::path>& files, const CsvOptions& options,
                     const std::optional<csv_internal::Kinds>& kinds) {
  if (files.empty()) refuse("no files are given");
  if (options.field_delim == '\n' || options.field_delim == '\r' ||
      (options.field_delim == '"' && options.use_quote_delim))
    refuse("field_delim is a line end or a quote; take another byte");
  if (options.num_rows_for_inference < 1)
    refuse(str("num_rows_for_inference is ", options.num_rows_for_inference, "; it must be at least 1"));

  CsvSchema schema{.options = options, .names = column_names(files.front(), options), .columns = {}};
  schema.columns = selected_columns(schema.names, options);
  schema.inferred = options.record_defaults.empty();
  if (schema.inferred) {
    for (size_t i = 0; kinds && i < std::min(kinds->is_text.size(), schema.columns.size()); ++i)
      if (kinds->is_text[i]) schema.columns[i].type = CsvType::string;
    infer_types(schema.columns, files, options);
    set_inferred_defaults(schema.columns);
  } else {
    set_defaults(schema.columns, options.record_defaults);
  }
  if (kinds) check_kinds(schema.columns, *kinds);
  return schema;
}

}  // namespace tutti::data
