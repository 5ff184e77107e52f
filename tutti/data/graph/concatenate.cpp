#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class ConcatenateIterator : public Iterator {
 public:
  ConcatenateIterator(std::unique_ptr<Iterator> first, std::unique_ptr<Iterator> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  bool next(Element& element) override {
    if (first_ && first_->next(element)) return true;
    first_.reset();
    return second_->next(element);
  }

 private:
  std::unique_ptr<Iterator> first_;
  std::unique_ptr<Iterator> second_;
};

int64_t sum(int64_t a, int64_t b) {
  if (a == kInfinite || b == kInfinite) return kInfinite;
  return a == kUnknown || b == kUnknown ? kUnknown : a + b;
}

}  // namespace

NodePtr concatenate(const NodePtr& first, const NodePtr& second) {
  Node node = after_all({first, second},
                        [](const std::vector<NodePtr>& inputs) { return concatenate(inputs.at(0), inputs.at(1)); });
  node.cardinality = sum(first->cardinality, second->cardinality);
  node.iterate = [first, second](const std::stop_token& stop) {
    return std::make_unique<ConcatenateIterator>(first->iterate(stop), second->iterate(stop));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
