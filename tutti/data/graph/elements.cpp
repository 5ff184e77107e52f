#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class ElementsIterator : public Iterator {
 public:
  explicit ElementsIterator(std::shared_ptr<const std::vector<Element>> elements) : elements_(std::move(elements)) {}

  bool next(Element& element) override {
    if (next_ == elements_->size()) return false;
    element = (*elements_)[next_++];
    return true;
  }

  void save(StateWriter& state) override {
    state.op("elements", {static_cast<int64_t>(elements_->size())});
    state.number(static_cast<int64_t>(next_));
  }
  void restore(StateReader& state) override {
    state.op("elements", {static_cast<int64_t>(elements_->size())});
    next_ = static_cast<size_t>(state.number_in(0, static_cast<int64_t>(elements_->size())));
  }

 private:
  std::shared_ptr<const std::vector<Element>> elements_;
  size_t next_ = 0;
};

}  // namespace

NodePtr from_elements(std::vector<Element> elements, const NodePtr& of) {
  const auto kept = std::make_shared<const std::vector<Element>>(std::move(elements));
  Node node;
  if (of) {
    node = after(of, {});
    node.inputs.clear();
    node.rebuild = {};
  }
  node.elements = kept;
  node.cardinality = static_cast<int64_t>(kept->size());
  node.iterate = [kept](const Context&) { return std::make_unique<ElementsIterator>(kept); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
