#include "tutti/data/graph/ops.h"

#include <algorithm>

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

 private:
  std::shared_ptr<const Table> table_;
  int64_t row_ = 0;
};

// The size of the leaves' axis `axis`, if they all have it and agree.
int64_t common_size(const std::vector<Tensor>& leaves, int64_t axis) {
  for (const Tensor& leaf : leaves)
    if (leaf.dim() <= axis) return kNotBatched;
  const int64_t size = leaves.front().size(axis);
  const bool agreed = std::ranges::all_of(leaves, [&](const Tensor& leaf) { return leaf.size(axis) == size; });
  return agreed ? size : kUnknown;
}

}  // namespace

NodePtr from_tensor_slices(const std::vector<Tensor>& columns, Keys keys) {
  const auto table = std::make_shared<const Table>(columns, std::move(keys));
  Node node;
  node.cardinality = table->num_rows();
  node.batch_size = common_size(columns, 1);
  node.iterate = [table](const std::stop_token&) { return std::make_unique<SliceIterator>(table); };
  return std::make_shared<const Node>(std::move(node));
}

NodePtr from_tensors(const std::vector<Tensor>& leaves, Keys keys) {
  std::vector<Tensor> columns;
  for (const Tensor& leaf : leaves) columns.push_back(leaf.detach().unsqueeze(0));
  return from_tensor_slices(columns, std::move(keys));
}

}  // namespace tutti::data::graph
