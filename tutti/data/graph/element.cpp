#include "tutti/data/graph/element.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

// -1 for inference tensors, which have no version counter.
int64_t version_of(const Tensor& tensor) { return tensor.is_inference() ? -1 : tensor._version(); }

std::string describe(const Tensor& leaf) {
  return str(c10::toString(leaf.scalar_type()), ' ', str_list(leaf.sizes()), " on ", leaf.device().str());
}

bool same_form(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
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
  if (!known) return false;
  for (const Tensor& column : known->columns())
    if (!in_host_memory(column)) return false;
  for (const Element& element : elements) {
    if (element.table() == known) continue;
    if (!element.table() || element.table()->columns().size() != known->columns().size()) return false;
    for (size_t i = 0; i < known->columns().size(); ++i) {
      const Tensor& column = element.table()->columns()[i];
      if (!in_host_memory(column) || !same_row_form(column, known->columns()[i])) return false;
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
  const Tensor& like = elements.front().table()->columns()[leaf];
  auto sizes = like.sizes().vec();
  sizes[0] = static_cast<int64_t>(elements.size());
  Tensor result = at::empty(sizes, like.options());
  const size_t row_bytes = result.nbytes() / elements.size();
  auto* to = static_cast<std::byte*>(result.mutable_data_ptr());
  for (const Element& element : elements) {
    const auto* rows = static_cast<const std::byte*>(element.table()->columns()[leaf].const_data_ptr());
    std::memcpy(to, rows + static_cast<size_t>(element.row()) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return result;
}

std::vector<Tensor> stack_leaves(std::span<const Element> elements) {
  std::vector<std::vector<Tensor>> columns(elements.front().leaves().size());
  for (size_t i = 0; i < elements.size(); ++i) {
    std::vector<Tensor> leaves = elements[i].leaves();
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
  std::vector<Tensor> stacked;
  for (const auto& column : columns) stacked.push_back(at::stack(column));
  return stacked;
}

}  // namespace

Table::Table(const std::vector<Tensor>& columns, Keys keys) : keys_(std::move(keys)) {
  graph::num_rows(columns, "from_tensor_slices");
  for (const Tensor& column : columns) {
    columns_.push_back(packed(column));
    versions_.push_back(version_of(columns_.back()));
  }
}

std::vector<Tensor> Table::row(int64_t index) const {
  check_unwritten();
  std::vector<Tensor> leaves;
  leaves.reserve(columns_.size());
  for (const Tensor& column : columns_) leaves.push_back(column.select(0, index));
  return leaves;
}

std::vector<Tensor> Table::rows(int64_t first, int64_t count) const {
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

Element stack(std::span<const Element> elements) {
  const Element& first = elements.front();
  for (const Element& element : elements)
    if (!same_keys(element.keys(), first.keys()))
      throw Error(ErrorCode::invalid_argument, "batch: the dictionaries of a batch's elements have different keys");
  if (consecutive_rows(elements))
    return Element(first.table()->rows(first.row(), static_cast<int64_t>(elements.size())), first.keys());
  if (!rows_of_like_tables(elements)) return Element(stack_leaves(elements), first.keys());
  check_tables_unwritten(elements);
  std::vector<Tensor> leaves;
  for (size_t leaf = 0; leaf < first.table()->columns().size(); ++leaf) leaves.push_back(copy_rows(elements, leaf));
  return Element(std::move(leaves), first.keys());
}

int64_t num_rows(const std::vector<Tensor>& leaves, const char* op) {
  if (leaves.empty()) throw Error(ErrorCode::invalid_argument, str(op, ": no tensors; there must be at least one"));
  for (const Tensor& leaf : leaves) {
    if (leaf.dim() == 0)
      throw Error(ErrorCode::invalid_argument,
                  str(op, ": a leaf is a scalar; every leaf needs a first axis to be cut along: call batch first"));
    if (leaf.size(0) != leaves.front().size(0))
      throw Error(ErrorCode::invalid_argument, str(op, ": the leaves have ", leaves.front().size(0), " and ",
                                                   leaf.size(0), " rows; all must have the same number"));
  }
  return leaves.front().size(0);
}

std::vector<Tensor> narrow_rows(const std::vector<Tensor>& leaves, int64_t first, int64_t count) {
  std::vector<Tensor> rows;
  rows.reserve(leaves.size());
  for (const Tensor& leaf : leaves) rows.push_back(leaf.narrow(0, first, count));
  return rows;
}

bool in_host_memory(const Tensor& tensor) { return tensor.key_set().has(c10::DispatchKey::CPU); }

Tensor packed(const Tensor& tensor) {
  return (tensor.requires_grad() ? tensor.detach() : tensor).resolve_conj().resolve_neg().contiguous();
}

bool same_keys(const Keys& a, const Keys& b) { return a == b || (a && b && *a == *b); }

}  // namespace tutti::data::graph
