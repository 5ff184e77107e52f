#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pass_over.h"

namespace tutti::data::graph {
namespace {

struct Span {
  size_t elements;  // from a window's first element to its last, both included
  size_t shift;
  size_t stride;
  bool drop_remainder;
};

// Keeps the elements that the window at hand spans. TF: WindowDataset.
class WindowIterator : public Iterator {
 public:
  WindowIterator(NodePtr input, const Span& span, const Context& context)
      : input_(std::move(input)), span_(span), pass_(input_->iterate(context)), pass_over_("window", context.stop) {}

  bool next(Element& element) override {
    for (; !ended_ && to_skip_ > 0; --to_skip_) ended_ = !pass_over_(*pass_);
    while (!ended_ && kept_.size() < span_.elements) {
      Element read;
      ended_ = !pass_->next(read);
      if (!ended_) kept_.push_back(std::move(read));
    }
    if (kept_.empty() || (span_.drop_remainder && kept_.size() < span_.elements)) return false;
    std::vector<Element> window;
    for (size_t i = 0; i < kept_.size(); i += span_.stride) window.push_back(kept_[i]);
    const size_t done = std::min(span_.shift, kept_.size());
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(done));
    to_skip_ = span_.shift - done;
    element = Element({Leaf(from_elements(std::move(window), input_))});
    return true;
  }

  void save(StateWriter& state) override {
    state.op("window", arguments());
    pass_->save(state);
    state.elements(kept_);
    state.number(static_cast<int64_t>(to_skip_));
    state.number(ended_);
  }
  void restore(StateReader& state) override {
    state.op("window", arguments());
    pass_->restore(state);
    kept_ = state.elements();
    to_skip_ = static_cast<size_t>(state.number_in(0, INT64_MAX));
    ended_ = state.flag();
  }

 private:
  std::vector<int64_t> arguments() const {
    return {static_cast<int64_t>(span_.elements), static_cast<int64_t>(span_.shift), static_cast<int64_t>(span_.stride),
            span_.drop_remainder};
  }

  NodePtr input_;
  Span span_;
  std::unique_ptr<Iterator> pass_;
  std::vector<Element> kept_;
  size_t to_skip_ = 0;  // elements between the last window and the next
  bool ended_ = false;
  PassOver pass_over_;
};

int64_t num_windows(int64_t elements, const Span& span) {
  if (elements < 0) return elements;
  const auto shift = static_cast<int64_t>(span.shift);
  if (!span.drop_remainder) return elements / shift + (elements % shift != 0);
  const auto needed = static_cast<int64_t>(span.elements);
  return elements < needed ? 0 : (elements - needed) / shift + 1;
}

}  // namespace

NodePtr window(const NodePtr& input, int64_t size, const WindowOptions& options) {
  const int64_t shift = options.shift.value_or(size);
  int64_t elements = 0;
  if (size < 1 || shift < 1 || options.stride < 1 || __builtin_mul_overflow(size - 1, options.stride, &elements) ||
      elements == INT64_MAX)
    throw Error(ErrorCode::invalid_argument, str("window: size ", size, ", shift ", shift, ", stride ", options.stride,
                                                 "; all must be at least 1, and a window may span 2^63 - 1 elements"));
  const Span span{static_cast<size_t>(elements + 1), static_cast<size_t>(shift), static_cast<size_t>(options.stride),
                  options.drop_remainder};
  Node node = after(input, [=](const NodePtr& other) { return window(other, size, options); });
  node.cardinality = num_windows(input->cardinality, span);
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.uniform = false;
  node.iterate = [=](const Context& context) { return std::make_unique<WindowIterator>(input, span, context); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
