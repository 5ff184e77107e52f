#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class TakeIterator : public Iterator {
 public:
  TakeIterator(std::unique_ptr<Iterator> input, int64_t count)
      : input_(std::move(input)), count_(count), left_(count) {}

  bool next(Element& element) override {
    if (left_ == 0) return false;
    --left_;  // also where it throws
    const bool any = input_->next(element);
    if (!any) left_ = 0;
    return any;
  }

  void save(StateWriter& state) override {
    state.op("take", {count_});
    state.number(left_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("take", {count_});
    left_ = state.number_in(0, count_);
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  int64_t count_;
  int64_t left_;
};

}  // namespace

NodePtr take(const NodePtr& input, int64_t count) {
  if (count < 0) throw Error(ErrorCode::invalid_argument, str("take: count ", count, "; it must not be negative"));
  Node node = after(input, [=](const NodePtr& other) { return take(other, count); });
  if (input->cardinality == kInfinite || count == 0) node.cardinality = count;
  if (input->cardinality >= 0) node.cardinality = std::min(input->cardinality, count);
  node.iterate = [=](const Context& context) { return std::make_unique<TakeIterator>(input->iterate(context), count); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
