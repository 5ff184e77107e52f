#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/data/graph/leaf.h"

namespace tutti::data::graph {

// The keys of each dictionary inside an element, depth first. Null where the element's type holds no dictionary.
using Keys = std::shared_ptr<const std::vector<std::vector<std::string>>>;

// Elements stored together: row i of every column is element i. The columns keep the caller's storage where they are
// contiguous, so nobody may write into them any more; rows() and stack() notice such a write by the version counter.
class Table {
 public:
  // Columns: one per leaf, [rows, ...]; gradients are not kept.
  // Throws: invalid_argument without columns, for a scalar column, for unequal numbers of rows.
  explicit Table(const std::vector<Leaf>& columns, Keys keys = nullptr);

  int64_t num_rows() const { return shape_of(columns_.front())[0]; }
  const std::vector<Leaf>& columns() const { return columns_; }
  const Keys& keys() const { return keys_; }

  // Views of one row (without its axis) and of consecutive rows.
  std::vector<Leaf> row(int64_t index) const;
  std::vector<Leaf> rows(int64_t first, int64_t count) const;

  // Throws: failed_precondition if a column was written to since the table was made.
  void check_unwritten() const;

 private:
  std::vector<Leaf> columns_;
  std::vector<int64_t> versions_;
  Keys keys_;
};

// One element of a dataset: a flat list of leaves, or a row of a table until somebody looks at it. The second form is
// what lets batch() after any order of shuffle, repeat, take, … copy rows straight out of the table.
class Element {
 public:
  Element() = default;
  explicit Element(std::vector<Leaf> leaves, Keys keys = nullptr)
      : leaves_(std::move(leaves)), keys_(std::move(keys)) {}
  // `passing`: the table will be kept alive by elements alone.
  Element(std::shared_ptr<const Table> table, int64_t row, bool passing = false)
      : table_(std::move(table)), row_(row), passing_(passing) {}

  std::vector<Leaf> leaves() const& { return table_ ? table_->row(row_) : leaves_; }
  std::vector<Leaf> leaves() && { return table_ ? table_->row(row_) : std::move(leaves_); }
  const Keys& keys() const { return table_ ? table_->keys() : keys_; }

  const Table* table() const { return table_.get(); }  // null unless the element is a row
  int64_t row() const { return row_; }
  bool is_row_of_passing_table() const { return passing_; }

 private:
  std::shared_ptr<const Table> table_;
  int64_t row_ = 0;
  bool passing_ = false;
  std::vector<Leaf> leaves_;
  Keys keys_;
};

// One element whose leaves are the elements' leaves along a new first axis: a view for consecutive rows of one table, a
// row-wise copy for other rows in host memory, at::stack else.
// Throws: invalid_argument where leaves differ in number, shape, dtype or device, or dictionaries in their keys.
Element stack(std::span<const Element> elements);

// Throws: invalid_argument unless all elements' dictionaries have the same keys.
void check_same_keys(std::span<const Element> elements);

// The number of rows that all leaves share.
// Throws: invalid_argument, in the name of `op`, for a scalar leaf or unequal numbers of rows.
int64_t num_rows(const std::vector<Leaf>& leaves, const char* op);

// Rows [first, first + count) of every leaf, as views.
std::vector<Leaf> narrow_rows(const std::vector<Leaf>& leaves, int64_t first, int64_t count);
// Whether two elements have dictionaries with the same keys.
bool same_keys(const Keys& a, const Keys& b);

// Throws failed_precondition for an element that has not the leaves or dictionaries of the dataset's type.
[[noreturn]] void throw_other_structure();
// The element. Throws: invalid_argument for one with an undefined tensor, as a function of the user's may return.
Element with_values(Element element);

}  // namespace tutti::data::graph
