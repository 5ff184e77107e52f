#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

// Keeps up to `cycle_length` datasets open and takes `block_length` elements from each in turn; one that has ended
// gives its place to the next that the function makes, when its turn comes again. TF: InterleaveDataset.
class InterleaveIterator : public Iterator {
 public:
  InterleaveIterator(std::unique_ptr<Iterator> input, std::shared_ptr<const FlatMapFunction> function,
                     const InterleaveOptions& options, std::stop_token stop)
      : input_(std::move(input)), function_(std::move(function)), options_(options), stop_(std::move(stop)) {
    open_.resize(static_cast<size_t>(options.cycle_length));
  }

  bool next(Element& element) override {
    for (size_t empty = 0; empty < open_.size();) {
      if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "interleave: the consumer is gone");
      auto& current = open_[slot_];
      if (!current) current = open_next();
      if (!current) {  // the input has ended
        ++empty;
        move_on();
      } else if (current->next(element)) {
        if (++taken_ == options_.block_length) move_on();
        return true;
      } else {
        empty = 0;
        current.reset();
        move_on();
      }
    }
    return false;
  }

 private:
  void move_on() {
    slot_ = (slot_ + 1) % open_.size();
    taken_ = 0;
  }

  std::unique_ptr<Iterator> open_next() {
    Element element;
    if (ended_ || (ended_ = !input_->next(element))) return nullptr;
    return (*function_)(std::move(element))->iterate(stop_);
  }

  std::unique_ptr<Iterator> input_;
  std::shared_ptr<const FlatMapFunction> function_;
  InterleaveOptions options_;
  std::stop_token stop_;
  std::vector<std::unique_ptr<Iterator>> open_;
  size_t slot_ = 0;
  int64_t taken_ = 0;  // of this turn
  bool ended_ = false;
};

}  // namespace

NodePtr interleave(const NodePtr& input, FlatMapFunction function, const InterleaveOptions& options) {
  if (options.cycle_length < 1 || options.block_length < 1)
    throw Error(ErrorCode::invalid_argument, str("interleave: cycle_length ", options.cycle_length, ", block_length ",
                                                 options.block_length, "; both must be at least 1"));
  const auto shared = std::make_shared<const FlatMapFunction>(std::move(function));
  Node node = after(input, [=](const NodePtr& other) { return interleave(other, *shared, options); });
  node.make_dataset = *shared;
  node.cardinality = kUnknown;
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.uniform = false;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<InterleaveIterator>(input->iterate(stop), shared, options, stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
