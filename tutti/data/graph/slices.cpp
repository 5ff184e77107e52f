#include "tutti/data/graph/ops.h"

#include <algorithm>

#include "tutti/data/graph/content.h"

namespace tutti::data::graph {
namespace {

class SliceIterator : public Iterator {
 public:
  explicit SliceIterator(std::shared_ptr<const Table> table) : table_(std::move(table)) {}

  bool next(Element& element) override {
    if (row_ == table_->num_rows()) return false;
    element = Element(table_, row_++);
    return true;
  }

  void save(StateWriter& state) override {
    state.op(form());
    state.number(row_);
  }
  void restore(StateReader& state) override {
    state.op(form());
    row_ = state.number_in(0, table_->num_rows());
  }

 private:
  std::string form() const { return "from_tensor_slices of " + form_of(table_->columns(), table_->keys()); }

  std::shared_ptr<const Table> table_;
  int64_t row_ = 0;
};

// The size of the leaves' axis `axis`, if they all have it and agree.
int64_t common_size(const std::vector<Leaf>& leaves, size_t axis) {
  for (const Leaf& leaf : leaves)
    if (shape_of(leaf).size() <= axis) return kNotBatched;
  const int64_t size = shape_of(leaves.front())[axis];
  const bool agreed = std::ranges::all_of(leaves, [&](const Leaf& leaf) { return shape_of(leaf)[axis] == size; });
  return agreed ? size : kUnknown;
}

// The leaf as a column of one row.
Leaf first_row(const Leaf& leaf) {
  if (const auto* tensor = std::get_if<Tensor>(&leaf)) return tensor->detach().unsqueeze(0);
  return stack_leaves({&leaf, 1});
}

}  // namespace

NodePtr from_tensor_slices(const std::vector<Leaf>& columns, Keys keys) {
  const auto table = std::make_shared<const Table>(columns, std::move(keys));
  Node node;
  node.table = table;
  node.cardinality = table->num_rows();
  node.batch_size = common_size(columns, 1);
  node.batch_size_of_rows = common_size(columns, 2);
  node.uniform = true;
  node.iterate = [table](const Context&) { return std::make_unique<SliceIterator>(table); };
  return std::make_shared<const Node>(std::move(node));
}

NodePtr from_tensors(const std::vector<Leaf>& leaves, Keys keys) {
  std::vector<Leaf> columns;
  for (const Leaf& leaf : leaves) columns.push_back(first_row(leaf));
  return from_tensor_slices(columns, std::move(keys));
}

}  // namespace tutti::data::graph
