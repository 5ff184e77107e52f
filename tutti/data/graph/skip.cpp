#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pass_over.h"

namespace tutti::data::graph {
namespace {

class SkipIterator : public Iterator {
 public:
  SkipIterator(std::unique_ptr<Iterator> input, int64_t count, std::stop_token stop)
      : input_(std::move(input)), count_(count), left_(count), pass_over_("skip", std::move(stop)) {}

  bool next(Element& element) override {
    for (; left_ > 0; --left_)
      if (!pass_over_(*input_)) return false;
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
  PassOver pass_over_;
};

}  // namespace

NodePtr skip(const NodePtr& input, int64_t count) {
  if (count < 0) throw Error(ErrorCode::invalid_argument, str("skip: count ", count, "; it must not be negative"));
  Node node = after(input, [=](const NodePtr& other) { return skip(other, count); });
  if (input->cardinality >= 0) node.cardinality = std::max<int64_t>(input->cardinality - count, 0);
  node.iterate = [=](const Context& context) {
    return std::make_unique<SkipIterator>(input->iterate(context), count, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
