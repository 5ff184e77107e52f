#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

namespace tutti::data::graph {
namespace {

// Keeps up to `cycle_length` datasets open and takes `block_length` elements from each in turn; one that has ended
// gives its place to the next that the function makes, when its turn comes again. TF: InterleaveDataset.
class InterleaveIterator : public Iterator {
 public:
  InterleaveIterator(std::unique_ptr<Iterator> input, std::shared_ptr<const FlatMapFunction> function,
                     const InterleaveOptions& options, const char* op, Context context)
      : input_(std::move(input)),
        function_(std::move(function)),
        options_(options),
        op_(op),
        context_(std::move(context)) {
    open_.resize(static_cast<size_t>(options.cycle_length));
  }

  bool next(Element& element) override {
    for (size_t empty = 0; empty < open_.size();) {
      if (context_.stop.stop_requested()) throw Error(ErrorCode::cancelled, "interleave: the consumer is gone");
      Open& current = open_[slot_];
      if (!current.pass) open_next(current);
      if (!current.pass) {  // the input has ended
        ++empty;
        move_on();
      } else if (current.pass->next(element)) {
        if (++taken_ == options_.block_length) move_on();
        return true;
      } else {
        empty = 0;
        current.pass.reset();
        move_on();
      }
    }
    return false;
  }

  // A dataset is saved as the element that the function makes it of, and the state of its pass: also one that has
  // ended, for what it shares with those to come.
  void save(StateWriter& state) override {
    state.op("interleave", {options_.cycle_length, options_.block_length});
    input_->save(state);
    state.number(static_cast<int64_t>(slot_));
    state.number(taken_);
    state.number(ended_);
    state.number(index_);
    for (const Open& open : open_) {
      state.number(open.dataset != nullptr);
      if (!open.dataset) continue;
      state.number(open.index);
      state.element(open.element);
      state.graph(*open.dataset);
      state.number(open.pass != nullptr);
      if (open.pass) open.pass->save(state);
    }
  }
  void restore(StateReader& state) override {
    state.op("interleave", {options_.cycle_length, options_.block_length});
    input_->restore(state);
    slot_ = static_cast<size_t>(state.number_in(0, options_.cycle_length - 1));
    taken_ = state.number_in(0, options_.block_length - 1);
    ended_ = state.flag();
    index_ = state.number_in(0, INT64_MAX);
    for (Open& open : open_) {
      if (!state.flag()) continue;
      open.index = state.number_in(0, INT64_MAX);
      open.element = state.element();
      open.dataset = (*function_)(open.element);
      state.graph(*open.dataset);
      if (!state.flag()) continue;
      begin(open);
      open.pass->restore(state);
    }
  }

 private:
  struct Open {
    int64_t index = 0;  // of the element
    Element element;
    NodePtr dataset;                 // that the function made of the element
    std::unique_ptr<Iterator> pass;  // null when it has ended
  };

  void move_on() {
    slot_ = (slot_ + 1) % open_.size();
    taken_ = 0;
  }

  // An element that fails, or of which the function makes no dataset, leaves the place to the next one.
  void open_next(Open& place) {
    Element element;
    if (ended_ || (ended_ = !input_->next(element))) return;
    const int64_t index = index_++;
    NodePtr dataset = at_element(op_, index, [&] { return (*function_)(element); });
    place = {.index = index, .element = std::move(element), .dataset = std::move(dataset), .pass = nullptr};
    begin(place);
  }

  void begin(Open& place) const {
    place.pass = place.dataset->iterate(context_.part(static_cast<uint64_t>(place.index)));
  }

  std::unique_ptr<Iterator> input_;
  std::shared_ptr<const FlatMapFunction> function_;
  InterleaveOptions options_;
  const char* op_;
  Context context_;  // of the datasets that the function makes
  std::vector<Open> open_;
  size_t slot_ = 0;
  int64_t taken_ = 0;  // of this turn
  int64_t index_ = 0;  // of the input's next element
  bool ended_ = false;
};

}  // namespace

NodePtr interleave(const NodePtr& input, FlatMapFunction function, const InterleaveOptions& options, const char* op) {
  if (options.cycle_length < 1 || options.block_length < 1)
    throw Error(ErrorCode::invalid_argument, str("interleave: cycle_length ", options.cycle_length, ", block_length ",
                                                 options.block_length, "; both must be at least 1"));
  const auto shared = std::make_shared<const FlatMapFunction>(std::move(function));
  Node node = after(input, [=](const NodePtr& other) { return interleave(other, *shared, options, op); });
  node.make_dataset = *shared;
  node.cardinality = kUnknown;
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.uniform = false;
  const auto passes = std::make_shared<Passes>(op, Seed(), /*again=*/true);
  node.shared = passes;
  node.iterate = [=](const Context& context) {
    return std::make_unique<InterleaveIterator>(input->iterate(context), shared, options, op,
                                                passes->of_functions(context));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
