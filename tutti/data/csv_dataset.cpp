#include "tutti/data/csv_dataset.h"

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/csv_parser.h"
#include "tutti/data/csv_schema.h"
#include "tutti/data/graph/file_records.h"

namespace tutti::data {
namespace {

// The order of an element's leaves, and the names of its dictionaries.
struct Form {
  std::vector<size_t> columns;  // leaf i is this column
  graph::Keys keys = nullptr;
};

// A CsvRow: the numbers, then the strings, each by name.
Form by_name(const CsvSchema& schema) {
  std::map<std::string, size_t> numbers, strings;
  for (size_t i = 0; i < schema.columns.size(); ++i)
    (schema.columns[i].type == CsvType::string ? strings : numbers)[schema.columns[i].name] = i;
  Form form;
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

Form in_order(const CsvSchema& schema) {
  Form form;
  for (size_t i = 0; i < schema.columns.size(); ++i) form.columns.push_back(i);
  return form;
}

class CsvReader : public graph::RecordReader {
 public:
  CsvReader(const std::filesystem::path& path, std::shared_ptr<const CsvSchema> schema,
            std::shared_ptr<const Form> form)
      : path_(path),
        schema_(std::move(schema)),
        form_(std::move(form)),
        parser_(path, schema_->options.field_delim, schema_->options.use_quote_delim) {
    if (schema_->options.header) check_header();
  }

  bool next(graph::Element& record) override {
    if (!next_fields()) return false;
    std::vector<graph::Leaf> leaves;
    leaves.reserve(form_->columns.size());
    for (const size_t column : form_->columns) leaves.push_back(leaf(schema_->columns[column]));
    record = graph::Element(std::move(leaves), form_->keys);
    return true;
  }

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

  graph::Leaf leaf(const CsvColumn& column) const {
    const std::string& field = fields_[column.index];
    if (is_missing(field, schema_->options)) {
      if (!column.missing) refuse(column, "is missing and has no default; give a value in record_defaults");
      return *column.missing;
    }
    auto parsed = parse_csv_field(field, column.type);
    if (!parsed)
      refuse(column, str("is '", field.substr(0, 80), "', which is no ", to_string(column.type),
                         schema_->inferred ? ", as the first rows of this column are; set record_defaults, or more "
                                             "num_rows_for_inference"
                                           : ""));
    return *std::move(parsed);
  }

  [[noreturn]] void refuse(const CsvColumn& column, const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, str("csv_dataset: '", path_.string(), "', line ", parser_.line(),
                                                 ", column '", column.name, "' ", what));
  }

  std::filesystem::path path_;
  std::shared_ptr<const CsvSchema> schema_;
  std::shared_ptr<const Form> form_;
  CsvParser parser_;
  std::vector<std::string> fields_;
};

graph::NodePtr read_rows_as(std::vector<std::filesystem::path> files, CsvSchema schema, Form form) {
  const auto shared_schema = std::make_shared<const CsvSchema>(std::move(schema));
  const auto shared_form = std::make_shared<const Form>(std::move(form));
  return graph::read_files(
      std::move(files),
      [=](const std::filesystem::path& file) { return std::make_unique<CsvReader>(file, shared_schema, shared_form); },
      graph::kNotBatched);
}

}  // namespace

Dataset<CsvRow> csv_dataset(std::vector<std::filesystem::path> files, const CsvOptions& options) {
  CsvSchema schema = csv_schema(files, options, {});
  Form form = by_name(schema);
  return Dataset<CsvRow>(read_rows_as(std::move(files), std::move(schema), std::move(form)));
}

graph::NodePtr csv_internal::read_rows(std::vector<std::filesystem::path> files, const CsvOptions& options,
                                       const Kinds& kinds) {
  CsvSchema schema = csv_schema(files, options, kinds);
  Form form = in_order(schema);
  return read_rows_as(std::move(files), std::move(schema), std::move(form));
}

}  // namespace tutti::data
