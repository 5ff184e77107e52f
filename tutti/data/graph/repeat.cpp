#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class RepeatIterator : public Iterator {
 public:
  RepeatIterator(NodePtr input, int64_t count, Context context)
      : input_(std::move(input)), count_(count), left_(count), context_(std::move(context)) {
    if (left_ != 0) begin();
  }

  bool next(Element& element) override {
    while (pass_) {
      const bool any = std::exchange(any_, true);  // an error is something too
      if (pass_->next(element)) return true;
      any_ = false;
      if (context_.stop.stop_requested()) throw Error(ErrorCode::cancelled, "repeat: the consumer is gone");
      if (left_ > 0) --left_;
      pass_ = nullptr;
      ++number_;
      if (left_ > 0 || (left_ == kInfinite && any)) begin();  // repeating nothing forever would never return
    }
    return false;
  }

  void save(StateWriter& state) override {
    state.op("repeat", {count_});
    state.number(static_cast<int64_t>(number_));
    state.number(left_);
    state.number(any_);
    state.number(pass_ != nullptr);
    if (pass_) pass_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("repeat", {count_});
    number_ = static_cast<uint64_t>(state.number_in(0, INT64_MAX));
    left_ = state.number_in(std::min<int64_t>(count_, 0), count_);
    any_ = state.flag();
    if (state.number_in(0, pass_ != nullptr)) {
      if (number_ > 0) begin();
      pass_->restore(state);
    } else {
      pass_ = nullptr;
    }
  }

 private:
  void begin() { pass_ = input_->iterate(context_.part(number_)); }

  NodePtr input_;
  int64_t count_;
  int64_t left_;  // passes, this one included; kInfinite stays
  Context context_;
  uint64_t number_ = 0;  // of this pass
  std::unique_ptr<Iterator> pass_;
  bool any_ = false;  // whether this pass gave an element or an error
};

int64_t repeated(int64_t elements, int64_t count) {
  if (elements == 0 || count == 0) return 0;
  if (count == kInfinite) return kInfinite;
  int64_t total = 0;
  if (elements >= 0 && __builtin_mul_overflow(elements, count, &total)) return kUnknown;
  return elements < 0 ? elements : total;
}

}  // namespace

NodePtr repeat(const NodePtr& input, int64_t count) {
  if (count < 0 && count != kInfinite)
    throw Error(ErrorCode::invalid_argument, str("repeat: count ", count, "; it must be at least 0, or kInfinite"));
  Node node = after(input, [=](const NodePtr& other) { return repeat(other, count); });
  node.cardinality = repeated(input->cardinality, count);
  node.iterate = [=](const Context& context) { return std::make_unique<RepeatIterator>(input, count, context); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
