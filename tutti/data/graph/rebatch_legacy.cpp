#include "tutti/core/error.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/rebatch.h"

namespace tutti::data::graph {
namespace {

class LegacyRebatchIterator : public Iterator {
 public:
  LegacyRebatchIterator(std::unique_ptr<Iterator> input, int num_replicas)
      : input_(std::move(input)), num_replicas_(num_replicas), replica_(num_replicas) {}

  bool next(Element& element) override {
    if (replica_ == num_replicas_) {
      Element batch;
      if (!input_->next(batch)) return false;
      keys_ = batch.keys();
      leaves_ = std::move(batch).leaves();
      num_rows_ = num_rows(leaves_, "distribute");
      replica_ = 0;
    }
    const RowRange rows = replica_rows(num_rows_, {.replica_id = replica_++, .num_replicas = num_replicas_});
    element = Element(narrow_rows(leaves_, rows.first, rows.count), keys_);
    return true;
  }

  void save(StateWriter& state) override {
    state.op("replica_rows", {num_replicas_});
    input_->save(state);
    state.number(replica_);
    if (replica_ < num_replicas_) state.table(std::make_shared<const Table>(leaves_, keys_));
  }
  void restore(StateReader& state) override {
    state.op("replica_rows", {num_replicas_});
    input_->restore(state);
    replica_ = static_cast<int>(state.number_in(0, num_replicas_));
    if (replica_ == num_replicas_) return;
    const auto batch = state.table();
    leaves_ = batch->columns();
    keys_ = batch->keys();
    num_rows_ = batch->num_rows();
  }

 private:
  std::unique_ptr<Iterator> input_;
  int num_replicas_;
  int replica_;  // whose slice of leaves_ comes next
  std::vector<Leaf> leaves_;
  Keys keys_;
  int64_t num_rows_ = 0;
};

}  // namespace

NodePtr rebatch_legacy(const NodePtr& input, int num_replicas) {
  Node node = after(input, [=](const NodePtr& other) { return rebatch_legacy(other, num_replicas); });
  if (input->cardinality >= 0 && __builtin_mul_overflow(input->cardinality, num_replicas, &node.cardinality))
    node.cardinality = kUnknown;
  node.batch_size = kUnknown;
  node.uniform = false;
  node.iterate = [=](const Context& context) {
    return std::make_unique<LegacyRebatchIterator>(input->iterate(context), num_replicas);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
