#include "tutti/data/csv_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/csv_parser.h"
#include "tutti/data/csv_schema.h"
#include "tutti/data/graph/call_text.h"
#include "tutti/data/graph/file_records.h"

namespace tutti::data {
namespace {

// The order of an element's leaves, and the names of its dictionaries.
struct RowForm {
  std::vector<size_t> columns;  // leaf i is this column
  graph::Keys keys = nullptr;
};

// A CsvRow: the numbers, then the strings, each by name.
RowForm by_name(const CsvSchema& schema) {
  std::map<std::string, size_t> numbers, strings;
  for (size_t i = 0; i < schema.columns.size(); ++i)
    (schema.columns[i].type == CsvType::string ? strings : numbers)[schema.columns[i].name] = i;
  RowForm form;
  std::vector<std::vector<std::string>> keys;
  for (const auto& group : {numbers, strings}) {
    keys.emplace_back();
    for (const auto& [name, column] : group) {
      keys.back().push_back(name);
      form.columns.push_back(column);
    }
  }
  form.keys = std::make_shared<const graph::Keys::element_type>(std::move(keys));
  return form;
}

RowForm in_order(const CsvSchema& schema) {
  RowForm form;
  for (size_t i = 0; i < schema.columns.size(); ++i) form.columns.push_back(i);
  return form;
}

// How many rows are read at once, so that a batch inside of such a block is a view, and how many fields at most.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockFields = 1 << 16;

// One column of a block while it is filled.
class BlockColumn {
 public:
  BlockColumn(const CsvColumn& column, int64_t rows) : column_(&column) {
    if (column.type == CsvType::string) return;
    numbers_ = at::empty({rows}, dtype_of(column.type));
    bytes_ = static_cast<std::byte*>(numbers_.mutable_data_ptr());
    width_ = numbers_.element_size();
  }

  const CsvColumn& column() const { return *column_; }

  // False if the field is not of the column's type. May take the field's text.
  bool put(int64_t row, std::string& field) {
    if (bytes_) return parse_csv_number(field, column_->type, place(row));
    strings_.push_back(std::move(field));
    return true;
  }
  void put_default(int64_t row) {
    if (bytes_)
      std::memcpy(place(row), std::get<Tensor>(*column_->missing).const_data_ptr(), width_);
    else
      strings_.push_back(std::get<Strings>(*column_->missing).item());
  }

  graph::Leaf finish(int64_t rows) && {
    if (bytes_) return numbers_.narrow(0, 0, rows);
    strings_.resize(static_cast<size_t>(rows));
    return Strings(std::move(strings_));
  }

 private:
  std::byte* place(int64_t row) { return bytes_ + static_cast<size_t>(row) * width_; }

  const CsvColumn* column_;
  Tensor numbers_;
  std::byte* bytes_ = nullptr;  // of numbers_; null for a column of strings
  size_t width_ = 0;
  std::vector<std::string> strings_;
};

class CsvReader : public graph::RecordReader {
 public:
  CsvReader(const std::filesystem::path& path, std::shared_ptr<const CsvSchema> schema,
            std::shared_ptr<const RowForm> form)
      : path_(path),
        schema_(std::move(schema)),
        form_(std::move(form)),
        block_rows_(std::clamp<int64_t>(kBlockFields / static_cast<int64_t>(form_->columns.size()), 1, kBlockRows)),
        parser_(path, schema_->options.field_delim, schema_->options.use_quote_delim) {
    if (schema_->options.header) check_header();
    if (schema_->names.size() == 1) parser_.keep_empty_lines();
  }

  bool next(graph::Element& record) override {
    if ((!block_ || row_ == block_->num_rows()) && !read_block()) return false;
    record = graph::Element(block_, row_++, /*passing=*/true);
    return true;
  }
  bool goes_on() const override { return parser_.goes_on(); }

 private:
  void check_header() {
    const bool any = parser_.next(fields_);
    if (!schema_->options.column_names.empty() || (any && fields_ == schema_->names)) return;
    throw Error(
        ErrorCode::invalid_argument,
        str("csv_dataset: '", path_.string(), "' has the columns ", str_list(any ? fields_ : decltype(fields_)()),
            "; those of the first file are ", str_list(schema_->names), "; all files must have the same"));
  }

  bool next_fields() {
    if (!parser_.next(fields_)) return false;
    if (fields_.size() != schema_->names.size())
      throw Error(ErrorCode::data_loss, str("csv_dataset: '", path_.string(), "', line ", parser_.line(), ", has ",
                                            fields_.size(), " fields; ", schema_->names.size(), " are required"));
    return true;
  }

  // False at the end of the file. What is wrong with a row is thrown when its turn has come; the next block begins
  // behind it.
  bool read_block() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    std::vector<BlockColumn> columns;
    for (const size_t column : form_->columns) columns.emplace_back(schema_->columns[column], block_rows_);
    int64_t rows = 0;
    try {
      for (; rows < block_rows_ && next_fields(); ++rows)
        for (BlockColumn& column : columns) add(column, rows);
    } catch (const Error&) {
      if (rows == 0) throw;
      failure_ = std::current_exception();
    }
    if (rows == 0) return false;
    std::vector<graph::Leaf> leaves;
    for (BlockColumn& column : columns) leaves.push_back(std::move(column).finish(rows));
    block_ = std::make_shared<const graph::Table>(leaves, form_->keys);
    row_ = 0;
    return true;
  }

  void add(BlockColumn& to, int64_t row) {
    const CsvColumn& column = to.column();
    std::string& field = fields_[column.index];
    if (is_missing(field, schema_->options)) {
      if (!column.missing) refuse(column, "is missing and has no default; give a value in record_defaults");
      to.put_default(row);
    } else if (!to.put(row, field)) {
      refuse(column, str("is '", field.substr(0, 80), "', which is no ", to_string(column.type),
                         schema_->inferred ? ", as the first rows of this column are; set record_defaults, or more "
                                             "num_rows_for_inference"
                                           : ""));
    } else if (column.warned && has_leading_zeros(field)) {
      warn_of_leading_zeros(column, field);
    }
  }

  [[noreturn]] void refuse(const CsvColumn& column, const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, str("csv_dataset: '", path_.string(), "', line ", parser_.line(),
                                                 ", column '", column.name, "' ", what));
  }

  std::filesystem::path path_;
  std::shared_ptr<const CsvSchema> schema_;
  std::shared_ptr<const RowForm> form_;
  int64_t block_rows_;
  CsvParser parser_;
  std::vector<std::string> fields_;
  std::shared_ptr<const graph::Table> block_;  // of rows read ahead
  int64_t row_ = 0;                            // the next one of it
  std::exception_ptr failure_;                 // of the row after the block
};

// Behind a blank, so that an empty text is one too.
std::string default_of(const CsvColumn& column) {
  if (!column.missing) return "";
  if (const auto* text = std::get_if<Strings>(&*column.missing)) return " " + text->item();
  const auto& number = std::get<Tensor>(*column.missing);
  return number.is_floating_point() ? " " + graph::exact(number.item<double>()) : str(" ", number.item<int64_t>());
}

// What rows depend on, but for what is in the files. Of thousands of columns it would be long.
std::string call_of(const CsvSchema& schema, const RowForm& form) {
  std::vector<std::string> columns;
  for (const size_t i : form.columns) {
    const CsvColumn& column = schema.columns[i];
    columns.push_back(str(column.index, ' ', to_string(column.type), default_of(column)));
  }
  const CsvOptions& options = schema.options;
  return graph::abridged(graph::call_text("csv_dataset", options.header, std::string(1, options.field_delim),
                                          options.use_quote_delim, options.na_value, columns,
                                          form.keys ? *form.keys : graph::Keys::element_type()));
}

graph::NodePtr read_rows_as(std::vector<std::filesystem::path> files, CsvSchema schema, RowForm form) {
  const auto shared_schema = std::make_shared<const CsvSchema>(std::move(schema));
  const auto shared_form = std::make_shared<const RowForm>(std::move(form));
  return graph::read_files(
      std::move(files), call_of(*shared_schema, *shared_form),
      [=](const std::filesystem::path& file) { return std::make_unique<CsvReader>(file, shared_schema, shared_form); },
      graph::kNotBatched);
}

}  // namespace

Dataset<CsvRow> csv_dataset(std::vector<std::filesystem::path> files, const CsvOptions& options) {
  CsvSchema schema = csv_schema(files, options, {});
  RowForm form = by_name(schema);
  return Dataset<CsvRow>(read_rows_as(std::move(files), std::move(schema), std::move(form)));
}

graph::NodePtr csv_internal::read_rows(std::vector<std::filesystem::path> files, const CsvOptions& options,
                                       const Kinds& kinds) {
  CsvSchema schema = csv_schema(files, options, kinds);
  RowForm form = in_order(schema);
  return read_rows_as(std::move(files), std::move(schema), std::move(form));
}

}  // namespace tutti::data
