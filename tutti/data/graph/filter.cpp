#include "tutti/core/error.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

// What becomes of the elements for which the predicate is false.
enum class Otherwise { skip, stop };

class FilterIterator : public Iterator {
 public:
  FilterIterator(std::unique_ptr<Iterator> input, std::shared_ptr<const Predicate> predicate, Otherwise otherwise,
                 std::stop_token stop)
      : input_(std::move(input)), predicate_(std::move(predicate)), otherwise_(otherwise), stop_(std::move(stop)) {}

  bool next(Element& element) override {
    while (!ended_ && input_->next(element)) {
      if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "filter: the consumer is gone");
      if (at_element(otherwise_ == Otherwise::skip ? "filter" : "take_while", index_++,
                     [&] { return (*predicate_)(element); }))
        return true;
      ended_ = otherwise_ == Otherwise::stop;
    }
    ended_ = true;
    return false;
  }

  void save(StateWriter& state) override {
    state.op(name());
    state.number(ended_);
    state.number(index_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op(name());
    ended_ = state.flag();
    index_ = state.number_in(0, INT64_MAX);
    input_->restore(state);
  }

 private:
  const char* name() const { return otherwise_ == Otherwise::skip ? "filter" : "take_while"; }

  std::unique_ptr<Iterator> input_;
  std::shared_ptr<const Predicate> predicate_;
  Otherwise otherwise_;
  std::stop_token stop_;
  int64_t index_ = 0;  // of the input's next element
  bool ended_ = false;
};

NodePtr filtered(const NodePtr& input, const std::shared_ptr<const Predicate>& shared, Otherwise otherwise) {
  Node node = after(input, [=](const NodePtr& other) { return filtered(other, shared, otherwise); });
  node.cardinality = kUnknown;
  node.iterate = [=](const Context& context) {
    return std::make_unique<FilterIterator>(input->iterate(context), shared, otherwise, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr filter(const NodePtr& input, Predicate predicate) {
  return filtered(input, std::make_shared<const Predicate>(std::move(predicate)), Otherwise::skip);
}

NodePtr take_while(const NodePtr& input, Predicate predicate) {
  return filtered(input, std::make_shared<const Predicate>(std::move(predicate)), Otherwise::stop);
}

}  // namespace tutti::data::graph
