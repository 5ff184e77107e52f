#include <string>
#include <unordered_set>

#include "tutti/core/error.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

// Shape, dtype and values, as bytes.
std::string bytes_of(const Element& element) {
  StateWriter writer({});
  writer.element(element);
  const Tensor bytes = writer.finish();
  const auto* first = bytes.const_data_ptr<uint8_t>();
  return {first, first + bytes.numel()};
}

class UniqueIterator : public Iterator {
 public:
  UniqueIterator(std::unique_ptr<Iterator> input, std::stop_token stop)
      : input_(std::move(input)), stop_(std::move(stop)) {}

  bool next(Element& element) override {
    while (input_->next(element)) {
      if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "unique: the consumer is gone");
      if (seen_.insert(bytes_of(element)).second) return true;
    }
    return false;
  }

  void save(StateWriter& state) override {
    state.op("unique");
    input_->save(state);
    state.number(static_cast<int64_t>(seen_.size()));
    for (const std::string& bytes : seen_) state.text(bytes);
  }
  void restore(StateReader& state) override {
    state.op("unique");
    input_->restore(state);
    for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left) seen_.insert(state.text());
  }

 private:
  std::unique_ptr<Iterator> input_;
  std::stop_token stop_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

NodePtr unique(const NodePtr& input) {
  Node node = after(input, unique);
  node.cardinality = input->cardinality == 0 ? 0 : kUnknown;
  node.iterate = [input](const Context& context) {
    return std::make_unique<UniqueIterator>(input->iterate(context), context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
