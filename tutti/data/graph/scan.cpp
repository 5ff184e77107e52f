#include <ATen/ops/clone.h>

#include <future>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/content.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

// The function may write to the state in place.
Element copy_of(const Element& element) {
  std::vector<Leaf> leaves = element.leaves();
  for (Leaf& leaf : leaves)
    if (auto* tensor = std::get_if<Tensor>(&leaf); tensor && tensor->defined()) *tensor = tensor->clone();
  return Element(std::move(leaves), element.keys());
}

// With the initial state as its argument.
std::string scan_text(const Element& initial) {
  const std::vector<Leaf> leaves = initial.leaves();
  uint32_t checksum = 0;
  for (const Leaf& leaf : leaves) checksum = checksum_of(leaf, checksum);
  return str("scan(", form_of(leaves, initial.keys()), ", content ", checksum, ')');
}

class ScanIterator : public Iterator {
 public:
  ScanIterator(std::unique_ptr<Iterator> input, Element initial, std::shared_ptr<const ScanFunction> function,
               std::shared_future<std::string> text, std::stop_token stop)
      : input_(std::move(input)),
        state_(std::move(initial)),
        function_(std::move(function)),
        text_(std::move(text)),
        stop_(std::move(stop)) {}

  bool next(Element& element) override {
    if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "scan: the consumer is gone");
    if (!input_->next(element)) return false;
    auto [state, output] = at_element("scan", index_++, [&] { return (*function_)(state_, std::move(element)); });
    state_ = std::move(state);
    element = std::move(output);
    return true;
  }

  void save(StateWriter& state) override {
    state.op(text_.get());
    input_->save(state);
    state.number(index_);
    state.element(state_);
  }
  void restore(StateReader& state) override {
    state.op(text_.get());
    input_->restore(state);
    index_ = state.number_in(0, INT64_MAX);
    state_ = state.element();
  }

 private:
  std::unique_ptr<Iterator> input_;
  Element state_;
  std::shared_ptr<const ScanFunction> function_;
  std::shared_future<std::string> text_;
  std::stop_token stop_;
  int64_t index_ = 0;
};

}  // namespace

NodePtr scan(const NodePtr& input, Element initial, ScanFunction function) {
  const auto shared = std::make_shared<const ScanFunction>(std::move(function));
  Node node = after(input, [=](const NodePtr& other) { return scan(other, initial, *shared); });
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  const std::shared_future<std::string> text = std::async(std::launch::deferred, scan_text, initial).share();
  node.iterate = [=](const Context& context) {
    return std::make_unique<ScanIterator>(input->iterate(context), copy_of(initial), shared, text, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
