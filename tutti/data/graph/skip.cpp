#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class SkipIterator : public Iterator {
 public:
  SkipIterator(std::unique_ptr<Iterator> input, int64_t count)
      : input_(std::move(input)), count_(count), left_(count) {}

  bool next(Element& element) override {
    for (; left_ > 0; --left_)
      if (!input_->next(element)) return false;
    return input_->next(element);
  }

  void save(StateWriter& state) override {
    state.op("skip", {count_});
    state.number(left_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("skip", {count_});
    left_ = state.number_in(0, count_);
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  int64_t count_;
  int64_t left_;
};

}  // namespace

NodePtr skip(const NodePtr& input, int64_t count) {
  if (count < 0) throw Error(ErrorCode::invalid_argument, str("skip: count ", count, "; it must not be negative"));
  Node node = after(input, [=](const NodePtr& other) { return skip(other, count); });
  if (input->cardinality >= 0) node.cardinality = std::max<int64_t>(input->cardinality - count, 0);
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<SkipIterator>(input->iterate(stop), count);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
