#include "tutti/data/graph/keeper.h"

#include <ATen/ops/clone.h>

#include <algorithm>
#include <functional>

namespace tutti::data::graph {
namespace {

// What a view must leave unused for a copy to pay.
constexpr size_t kWorthACopy = 2;

Strings copy_of_text(const Strings& text) {
  return Strings(std::vector<std::string>(text.values().begin(), text.values().end()), text.shape());
}

// A table of the one row.
Element row_alone(const Element& row) {
  std::vector<Leaf> columns;
  for (const Leaf& column : row.table()->rows(row.row(), 1)) {
    const auto* tensor = std::get_if<Tensor>(&column);
    columns.push_back(tensor ? Leaf(tensor->clone()) : Leaf(copy_of_text(std::get<Strings>(column))));
  }
  return Element(std::make_shared<const Table>(columns, row.keys()), 0);
}

}  // namespace

Keeper::Keeper(const Node& input) {
  for (const Node* node : nodes_of(input)) {
    if (!node->table) continue;
    for (const Leaf& column : node->table->columns()) {
      if (const auto* text = std::get_if<Strings>(&column)) {
        const auto values = text->values();
        own_.emplace_back(values.data(), values.data() + values.size());
      } else if (const Tensor* tensor = host_tensor(column)) {
        const auto* begin = static_cast<const std::byte*>(tensor->const_data_ptr());
        own_.emplace_back(begin, begin + tensor->nbytes());
      }
    }
  }
}

Element Keeper::operator()(Element element) const {
  if (element.table()) return element.is_row_of_passing_table() ? row_alone(element) : element;
  std::vector<Leaf> leaves = element.leaves();
  for (Leaf& leaf : leaves) leaf = kept(leaf);
  return Element(std::move(leaves), element.keys());
}

bool Keeper::is_own(const void* address) const {
  const auto holds = [&](const Range& range) {
    return !std::less<>()(address, range.first) && std::less<>()(address, range.second);
  };
  return std::ranges::any_of(own_, holds);
}

Leaf Keeper::kept(const Leaf& leaf) const {
  if (const auto* text = std::get_if<Strings>(&leaf))
    return text->size() == 0 || is_own(text->values().data()) ? leaf : Leaf(copy_of_text(*text));
  const Tensor* tensor = host_tensor(leaf);
  if (!tensor || tensor->storage().nbytes() < kWorthACopy * tensor->nbytes() || tensor->nbytes() == 0) return leaf;
  return is_own(tensor->const_data_ptr()) ? leaf : Leaf(tensor->clone());
}

}  // namespace tutti::data::graph
