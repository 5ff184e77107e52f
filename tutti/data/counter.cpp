#include "tutti/data/counter.h"

#include <ATen/ops/scalar_tensor.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

class CounterIterator : public graph::Iterator {
 public:
  CounterIterator(int64_t start, int64_t step) : start_(start), step_(step), next_(start) {}

  bool next(graph::Element& element) override {
    if (ended_) throw Error(ErrorCode::out_of_range, str("counter: the number after ", next_, " is no int64"));
    element = graph::Element({at::scalar_tensor(next_, at::kLong)});
    int64_t following = 0;
    ended_ = __builtin_add_overflow(next_, step_, &following);
    if (!ended_) next_ = following;
    return true;
  }

  void save(graph::StateWriter& state) override {
    state.op("counter", {start_, step_});
    state.number(next_);
    state.number(ended_ ? 1 : 0);
  }
  void restore(graph::StateReader& state) override {
    state.op("counter", {start_, step_});
    next_ = state.number();
    ended_ = state.flag();
  }

 private:
  int64_t start_;
  int64_t step_;
  int64_t next_;
  bool ended_ = false;
};

}  // namespace

Dataset<Tensor> counter(int64_t start, int64_t step) {
  graph::Node node;
  node.cardinality = kInfinite;
  node.batch_size = graph::kNotBatched;
  node.uniform = true;
  node.iterate = [=](const graph::Context&) { return std::make_unique<CounterIterator>(start, step); };
  return Dataset<Tensor>(std::make_shared<const graph::Node>(std::move(node)));
}

}  // namespace tutti::data
