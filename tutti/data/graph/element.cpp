#include "tutti/data/graph/element.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/core/tensor_version.h"

namespace tutti::data::graph {
namespace {

// -1 for text too, which cannot be written to.
int64_t version_of(const Leaf& leaf) {
  const auto* tensor = std::get_if<Tensor>(&leaf);
  return tensor ? tutti::version_of(*tensor) : -1;
}

bool same_row_form(const Tensor& a, const Tensor& b) {
  return a.sizes().slice(1) == b.sizes().slice(1) && a.scalar_type() == b.scalar_type();
}

bool consecutive_rows(std::span<const Element> elements) {
  const Element& first = elements.front();
  if (!first.table()) return false;
  for (size_t i = 1; i < elements.size(); ++i)
    if (elements[i].table() != first.table() || elements[i].row() != first.row() + static_cast<int64_t>(i))
      return false;
  return true;
}

// Whether all elements are rows, in host memory, of tables whose columns agree but for the number of rows.
bool rows_of_like_tables(std::span<const Element> elements) {
  const Table* known = elements.front().table();
  if (!known || !std::ranges::all_of(known->columns(), host_tensor)) return false;
  for (const Element& element : elements) {
    if (element.table() == known) continue;
    if (!element.table() || element.table()->columns().size() != known->columns().size()) return false;
    for (size_t i = 0; i < known->columns().size(); ++i) {
      const Tensor* column = host_tensor(element.table()->columns()[i]);
      if (!column || !same_row_form(*column, *host_tensor(known->columns()[i]))) return false;
    }
    known = element.table();
  }
  return true;
}

void check_tables_unwritten(std::span<const Element> elements) {
  const Table* checked = nullptr;
  for (const Element& element : elements)
    if (element.table() != checked) (checked = element.table())->check_unwritten();
}

// Plain memcpy: at::index_select would wake OpenMP's threads for a batch of images.
Tensor copy_rows(std::span<const Element> elements, size_t leaf) {
  const Tensor& like = *host_tensor(elements.front().table()->columns()[leaf]);
  auto sizes = like.sizes().vec();
  sizes[0] = static_cast<int64_t>(elements.size());
  Tensor result = at::empty(sizes, like.options());
  const size_t row_bytes = result.nbytes() / elements.size();
  auto* to = static_cast<std::byte*>(result.mutable_data_ptr());
  for (const Element& element : elements) {
    const auto* rows = static_cast<const std::byte*>(host_tensor(element.table()->columns()[leaf])->const_data_ptr());
    std::memcpy(to, rows + static_cast<size_t>(element.row()) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return result;
}

std::vector<Leaf> stack_leaf_by_leaf(std::span<const Element> elements) {
  std::vector<std::vector<Leaf>> columns(elements.front().leaves().size());
  for (size_t i = 0; i < elements.size(); ++i) {
    std::vector<Leaf> leaves = elements[i].leaves();
    if (leaves.size() != columns.size())
      throw Error(ErrorCode::invalid_argument, str("batch: element ", i, " of a batch has ", leaves.size(),
                                                   " leaves, the first has ", columns.size(), "; they must agree"));
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (i > 0 && !same_form(columns[leaf].front(), leaves[leaf]))
        throw Error(ErrorCode::invalid_argument,
                    str("batch: leaf ", leaf, " is ", describe(leaves[leaf]), " in element ", i, " of a batch and ",
                        describe(columns[leaf].front()), " in the first; map the elements to one shape and dtype"));
      columns[leaf].push_back(std::move(leaves[leaf]));
    }
  }
  std::vector<Leaf> stacked;
  for (const auto& column : columns) stacked.push_back(stack_leaves(column));
  return stacked;
}

}  // namespace

Table::Table(const std::vector<Leaf>& columns, Keys keys) : keys_(std::move(keys)) {
  graph::num_rows(columns, "from_tensor_slices");
  for (const Leaf& column : columns) {
    columns_.push_back(packed(column));
    versions_.push_back(version_of(columns_.back()));
  }
}

std::vector<Leaf> Table::row(int64_t index) const {
  check_unwritten();
  std::vector<Leaf> leaves;
  leaves.reserve(columns_.size());
  for (const Leaf& column : columns_) leaves.push_back(row_of(column, index));
  return leaves;
}

std::vector<Leaf> Table::rows(int64_t first, int64_t count) const {
  check_unwritten();
  return narrow_rows(columns_, first, count);
}

void Table::check_unwritten() const {
  for (size_t i = 0; i < columns_.size(); ++i)
    if (version_of(columns_[i]) != versions_[i])
      throw Error(ErrorCode::failed_precondition,
                  str("Dataset: the memory behind leaf ", i, " (", describe(columns_[i]),
                      ") was written to in place. Elements and unshuffled batches are views of the dataset's tensors: "
                      "clone() before writing, or use the out-of-place operation"));
}

void check_same_keys(std::span<const Element> elements) {
  for (const Element& element : elements)
    if (!same_keys(element.keys(), elements.front().keys()))
      throw Error(ErrorCode::invalid_argument, "batch: the dictionaries of a batch's elements have different keys");
}

Element stack(std::span<const Element> elements) {
  check_same_keys(elements);
  const Element& first = elements.front();
  if (consecutive_rows(elements))
    return Element(first.table()->rows(first.row(), static_cast<int64_t>(elements.size())), first.keys());
  if (!rows_of_like_tables(elements)) return Element(stack_leaf_by_leaf(elements), first.keys());
  check_tables_unwritten(elements);
  std::vector<Leaf> leaves;
  for (size_t leaf = 0; leaf < first.table()->columns().size(); ++leaf) leaves.push_back(copy_rows(elements, leaf));
  return Element(std::move(leaves), first.keys());
}

int64_t num_rows(const std::vector<Leaf>& leaves, const char* op) {
  if (leaves.empty()) throw Error(ErrorCode::invalid_argument, str(op, ": no tensors; there must be at least one"));
  for (const Leaf& leaf : leaves) {
    const auto shape = shape_of(leaf), first = shape_of(leaves.front());
    if (shape.empty())
      throw Error(ErrorCode::invalid_argument,
                  str(op, ": a leaf is a scalar; every leaf needs a first axis to be cut along: call batch first"));
    if (shape[0] != first[0])
      throw Error(ErrorCode::invalid_argument,
                  str(op, ": the leaves have ", first[0], " and ", shape[0], " rows; all must have the same number"));
  }
  return shape_of(leaves.front())[0];
}

std::vector<Leaf> narrow_rows(const std::vector<Leaf>& leaves, int64_t first, int64_t count) {
  std::vector<Leaf> rows;
  rows.reserve(leaves.size());
  for (const Leaf& leaf : leaves) rows.push_back(rows_of(leaf, first, count));
  return rows;
}

bool same_keys(const Keys& a, const Keys& b) { return a == b || (a && b && *a == *b); }

void throw_other_structure() {
  throw Error(
      ErrorCode::failed_precondition,
      "Dataset: an element has not the structure that the dataset's type says; the cache or the state that it was "
      "read from belongs to another dataset");
}

Element with_values(Element element) {
  for (const Leaf& leaf : element.leaves())
    if (const auto* tensor = std::get_if<Tensor>(&leaf); tensor && !tensor->defined())
      throw Error(
          ErrorCode::invalid_argument,
          "an element has an undefined Tensor in it; give a tensor, such as an empty one, or leave the part out "
          "of the element's type");
  return element;
}

}  // namespace tutti::data::graph
