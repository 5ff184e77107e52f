#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class RepeatIterator : public Iterator {
 public:
  RepeatIterator(NodePtr input, int64_t count, std::stop_token stop)
      : input_(std::move(input)), count_(count), left_(count), stop_(std::move(stop)) {
    if (left_ != 0) pass_ = input_->iterate(stop_);
  }

  bool next(Element& element) override {
    while (pass_) {
      if (pass_->next(element)) return any_ = true;
      if (left_ > 0) --left_;
      const bool again = any_ && left_ != 0;  // repeating nothing forever would never return
      any_ = false;
      pass_ = again ? input_->iterate(stop_) : nullptr;
    }
    return false;
  }

  void save(StateWriter& state) override {
    state.op("repeat", {count_});
    state.number(left_);
    state.number(any_);
    state.number(pass_ != nullptr);
    if (pass_) pass_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("repeat", {count_});
    left_ = state.number_in(std::min<int64_t>(count_, 0), count_);
    any_ = state.flag();
    if (state.number_in(0, pass_ != nullptr))
      pass_->restore(state);
    else
      pass_ = nullptr;
  }

 private:
  NodePtr input_;
  int64_t count_;
  int64_t left_;  // passes, this one included; kInfinite stays
  std::stop_token stop_;
  std::unique_ptr<Iterator> pass_;
  bool any_ = false;  // whether this pass gave an element
};

int64_t repeated(int64_t elements, int64_t count) {
  if (elements == 0 || count == 0) return 0;
  if (count == kInfinite) return kInfinite;
  return elements < 0 ? elements : elements * count;
}

}  // namespace

NodePtr repeat(const NodePtr& input, int64_t count) {
  if (count < 0 && count != kInfinite)
    throw Error(ErrorCode::invalid_argument, str("repeat: count ", count, "; it must be at least 0, or kInfinite"));
  Node node = after(input, [=](const NodePtr& other) { return repeat(other, count); });
  node.cardinality = repeated(input->cardinality, count);
  node.iterate = [=](const std::stop_token& stop) { return std::make_unique<RepeatIterator>(input, count, stop); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
