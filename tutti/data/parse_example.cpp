#include "tutti/data/parse_example.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <span>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data::parse_example_internal {
namespace {

template <class T>
constexpr const char* kNameOf = std::same_as<T, float>     ? "float"
                                : std::same_as<T, int64_t> ? "int64"
                                                           : "bytes";

// [shape] of all values, row-major.
template <class T>
graph::Leaf leaf_of(std::vector<T> values, std::vector<int64_t> shape) {
  if constexpr (std::same_as<T, std::string>) {
    return Strings(std::move(values), std::move(shape));
  } else {
    const auto owner = std::make_shared<std::vector<T>>(std::move(values));
    return at::from_blob(
        owner->data(), shape, [owner](void*) {}, c10::CppTypeToScalarType<T>::value);
  }
}

template <class T>
void append(const ExampleReader::View& view, std::vector<T>& values) {
  if constexpr (std::same_as<T, std::string>) {
    for (const std::string* value : std::get<std::span<const std::string* const>>(view)) values.push_back(*value);
  } else {
    const auto from = std::get<std::span<const T>>(view);
    values.insert(values.end(), from.begin(), from.end());
  }
}

// What a column is filled from, record by record.
class Builder {
 public:
  virtual ~Builder() = default;
  virtual void add(const ExampleReader::View& view, int64_t record) = 0;
  virtual void finish(int64_t num_records, std::vector<graph::Leaf>& leaves) = 0;
};

template <class T>
class TypedBuilder : public Builder {
 public:
  TypedBuilder(const Column& column, size_t num_records)
      : column_(column), fill_(std::get<std::vector<T>>(column.fill)) {
    if (column.variable) return;
    check_shape();
    values_.reserve(num_records * count_);
  }

  void add(const ExampleReader::View& view, int64_t record) override {
    const size_t before = values_.size();
    if (std::holds_alternative<std::monostate>(view)) {
      add_default(record);
    } else if (view.index() != column_.fill.index()) {
      refuse(record, str("is of another type than ", kNameOf<T>));
    } else {
      append(view, values_);
    }
    const size_t count = values_.size() - before;
    if (column_.variable) return lengths_.push_back(static_cast<int64_t>(count));
    if (count != count_)
      refuse(record, str("has ", count, " values, of which shape ", str_list(column_.shape), " takes ", count_));
  }

  void finish(int64_t num_records, std::vector<graph::Leaf>& leaves) override {
    if (column_.variable) return finish_padded(num_records, leaves);
    std::vector<int64_t> shape{num_records};
    shape.insert(shape.end(), column_.shape.begin(), column_.shape.end());
    leaves.push_back(leaf_of(std::move(values_), std::move(shape)));
  }

 private:
  void check_shape() {
    bool overflow = false;
    for (const int64_t size : column_.shape)
      overflow |= size < 0 || __builtin_mul_overflow(count_, static_cast<size_t>(size), &count_);
    if (overflow || (fill_.size() > 1 && fill_.size() != count_))
      throw Error(ErrorCode::invalid_argument,
                  str("parse_example: feature '", column_.name, "' has the shape ", str_list(column_.shape), " and ",
                      fill_.size(), " default values; sizes are 0 or more, defaults none, one or one for each value"));
  }

  void add_default(int64_t record) {
    if (column_.variable) return;
    if (fill_.empty()) refuse(record, "is required and not there");
    if (fill_.size() == 1)
      values_.insert(values_.end(), count_, fill_[0]);
    else
      values_.insert(values_.end(), fill_.begin(), fill_.end());
  }

  void finish_padded(int64_t num_records, std::vector<graph::Leaf>& leaves) {
    const int64_t longest = lengths_.empty() ? 0 : std::ranges::max(lengths_);
    std::vector<T> padded(static_cast<size_t>(num_records * longest), fill_[0]);
    auto from = values_.begin();
    for (size_t record = 0; record < lengths_.size(); from += lengths_[record], ++record)
      std::move(from, from + lengths_[record], padded.begin() + static_cast<int64_t>(record) * longest);
    leaves.push_back(leaf_of(std::move(padded), {num_records, longest}));
    leaves.push_back(leaf_of(std::move(lengths_), {num_records}));
  }

  [[noreturn]] void refuse(int64_t record, const std::string& what) const {
    throw Error(ErrorCode::invalid_argument,
                str("parse_example: feature '", column_.name, "' of record ", record, ' ', what));
  }

  const Column& column_;
  const std::vector<T>& fill_;
  size_t count_ = 1;  // values of a record, in a fixed column
  std::vector<T> values_;
  std::vector<int64_t> lengths_;  // of each record, in a variable column
};

std::unique_ptr<Builder> builder(const Column& column, size_t num_records) {
  if (std::holds_alternative<FloatList>(column.fill)) return std::make_unique<TypedBuilder<float>>(column, num_records);
  if (std::holds_alternative<Int64List>(column.fill))
    return std::make_unique<TypedBuilder<int64_t>>(column, num_records);
  return std::make_unique<TypedBuilder<std::string>>(column, num_records);
}

}  // namespace

std::vector<graph::Leaf> parse_batch(const Strings& records, const std::vector<Column>& columns) {
  if (records.rank() != 1)
    throw Error(ErrorCode::invalid_argument, str("parse_example: records of shape ", str_list(records.shape()),
                                                 "; a batch has the shape [n], one record is parse_single_example's"));
  std::vector<std::unique_ptr<Builder>> builders;
  for (const Column& column : columns) builders.push_back(builder(column, records.values().size()));
  ExampleReader reader;
  for (int64_t i = 0; i < records.size(); ++i) {
    if (!reader.read(records[i]))
      throw Error(ErrorCode::invalid_argument,
                  str("parse_example: record ", i, ", of ", records[i].size(), " bytes, is no Example"));
    for (size_t c = 0; c < columns.size(); ++c) builders[c]->add(reader.find(columns[c].name), i);
  }
  std::vector<graph::Leaf> leaves;
  for (const auto& builder : builders) builder->finish(records.size(), leaves);
  return leaves;
}

std::vector<graph::Leaf> parse_single(const Strings& record, const std::vector<Column>& columns) {
  const std::vector<graph::Leaf> batch = parse_batch(Strings(std::vector{record.item()}), columns);
  std::vector<graph::Leaf> leaves;
  size_t next = 0;
  for (const Column& column : columns) {
    leaves.push_back(graph::row_of(batch[next], 0));
    next += column.variable ? 2 : 1;
  }
  return leaves;
}

}  // namespace tutti::data::parse_example_internal
