#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class UnbatchIterator : public Iterator {
 public:
  explicit UnbatchIterator(std::unique_ptr<Iterator> input) : input_(std::move(input)) {}

  bool next(Element& element) override {
    while (!table_ || row_ == table_->num_rows()) {
      Element batch;
      if (!input_->next(batch)) return false;
      const Keys keys = batch.keys();
      const std::vector<Leaf> leaves = std::move(batch).leaves();
      num_rows(leaves, "unbatch");
      table_ = std::make_shared<const Table>(leaves, keys);
      row_ = 0;
    }
    element = Element(table_, row_++, /*passing=*/true);
    return true;
  }

  void save(StateWriter& state) override {
    state.op("unbatch");
    input_->save(state);
    const bool any = table_ && row_ < table_->num_rows();
    state.number(any);
    if (!any) return;
    state.table(table_);
    state.number(row_);
  }
  void restore(StateReader& state) override {
    state.op("unbatch");
    input_->restore(state);
    if (!state.flag()) return;
    table_ = state.table();
    row_ = state.number_in(0, table_->num_rows());
  }

 private:
  std::unique_ptr<Iterator> input_;
  std::shared_ptr<const Table> table_;
  int64_t row_ = 0;
};

}  // namespace

NodePtr unbatch(const NodePtr& input) {
  Node node = after(input, unbatch);
  node.cardinality = input->cardinality == kInfinite ? kInfinite : kUnknown;
  node.batch_size = input->batch_size_of_rows;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.uniform = input->uniform;
  node.iterate = [input](const Context& context) { return std::make_unique<UnbatchIterator>(input->iterate(context)); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
