#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class RangeIterator : public Iterator {
 public:
  RangeIterator(int64_t start, int64_t step, int64_t count)
      : start_(start), step_(step), count_(count), value_(start), left_(count) {}

  bool next(Element& element) override {
    if (left_ == 0) return false;
    element = Element({at::scalar_tensor(value_, at::kLong)});
    if (--left_ > 0) value_ += step_;
    return true;
  }

  void save(StateWriter& state) override {
    state.op("range", {start_, step_, count_});
    state.number(left_);
  }
  void restore(StateReader& state) override {
    state.op("range", {start_, step_, count_});
    left_ = state.number_in(0, count_);
    const auto steps = static_cast<uint64_t>(count_ - std::max<int64_t>(left_, 1));  // value_ stays at the last one
    if (count_ > 0) value_ = static_cast<int64_t>(static_cast<uint64_t>(start_) + steps * static_cast<uint64_t>(step_));
  }

 private:
  int64_t start_;
  int64_t step_;
  int64_t count_;
  int64_t value_;
  int64_t left_;
};

// How many of start, start + step, … come before stop. Unsigned, so that the whole of int64 can be spanned.
uint64_t count_of(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto from = static_cast<uint64_t>(start);
  const auto to = static_cast<uint64_t>(stop);
  const uint64_t distance = step > 0 ? to - from : from - to;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  return (distance - 1) / stride + 1;
}

}  // namespace

NodePtr range(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) throw Error(ErrorCode::invalid_argument, "range: step is 0; it must not be");
  const uint64_t count = count_of(start, stop, step);
  if (count > static_cast<uint64_t>(INT64_MAX))
    throw Error(ErrorCode::invalid_argument, "range: more than 2^63 - 1 elements; use a larger step");
  Node node;
  node.cardinality = static_cast<int64_t>(count);
  node.batch_size = kNotBatched;
  node.uniform = true;
  node.iterate = [=](const Context&) {
    return std::make_unique<RangeIterator>(start, step, static_cast<int64_t>(count));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
