#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class BatchIterator : public Iterator {
 public:
  BatchIterator(std::unique_ptr<Iterator> input, int64_t size, const BatchOptions& options)
      : input_(std::move(input)), size_(static_cast<size_t>(size)), options_(options) {}

  bool next(Element& element) override {
    while (elements_.size() < size_ && input_->next(element)) elements_.push_back(std::move(element));
    const std::vector<Element> batch = std::exchange(elements_, {});
    if (batch.empty() || (options_.drop_remainder && batch.size() < size_)) return false;
    element = stack(batch);
    return true;
  }

  void save(StateWriter& state) override {
    state.op("batch", arguments());
    input_->save(state);
    state.elements(elements_);
  }
  void restore(StateReader& state) override {
    state.op("batch", arguments());
    input_->restore(state);
    elements_ = state.elements();
    if (elements_.size() >= size_) state.refuse(str("a batch of ", elements_.size(), " elements is not full"));
  }

 private:
  std::vector<int64_t> arguments() const { return {static_cast<int64_t>(size_), options_.drop_remainder}; }

  std::unique_ptr<Iterator> input_;
  size_t size_;
  BatchOptions options_;
  std::vector<Element> elements_;  // of a batch that is not full, when an error came out
};

int64_t num_batches(int64_t elements, int64_t size, const BatchOptions& options) {
  if (elements < 0) return elements;
  return elements / size + (!options.drop_remainder && elements % size != 0);
}

// Collects rows on one thread and stacks them on others.
NodePtr stacked_side_by_side(const NodePtr& input, int64_t size, const BatchOptions& options) {
  const auto stack_window = [](const Element& window) {
    return stack(*std::get<NodePtr>(window.leaves().front())->elements);
  };
  return parallel_map(window(input, size, {.drop_remainder = options.drop_remainder}), stack_window,
                      {.num_parallel_calls = options.num_parallel_calls}, "batch");
}

}  // namespace

NodePtr batch(const NodePtr& input, int64_t size, const BatchOptions& options) {
  if (size < 1) throw Error(ErrorCode::invalid_argument, str("batch: size ", size, "; it must be at least 1"));
  Node node = after(input, [=](const NodePtr& other) { return batch(other, size, options); });
  node.cardinality = num_batches(input->cardinality, size, options);
  node.batch_size = size;
  node.batch_size_of_rows = input->batch_size;
  node.uniform = options.drop_remainder;
  if (options.num_parallel_calls != 0) {
    node.iterate = stacked_side_by_side(input, size, options)->iterate;
    return std::make_shared<const Node>(std::move(node));
  }
  node.iterate = [=](const Context& context) {
    return std::make_unique<BatchIterator>(input->iterate(context), size, options);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
