#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

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

  void save(StateWriter& state) override {
    state.op("concatenate");
    state.number(first_ != nullptr);
    if (first_) first_->save(state);
    second_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("concatenate");
    if (state.flag())
      first_->restore(state);
    else
      first_.reset();
    second_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> first_;
  std::unique_ptr<Iterator> second_;
};

}  // namespace

NodePtr concatenate(const NodePtr& first, const NodePtr& second) {
  Node node = after_all({first, second},
                        [](const std::vector<NodePtr>& inputs) { return concatenate(inputs.at(0), inputs.at(1)); });
  node.cardinality = total_cardinality({first, second});
  node.iterate = [first, second, parts = parts_of({first, second})](const Context& context) {
    return std::make_unique<ConcatenateIterator>(first->iterate(context.part(parts[0])),
                                                 second->iterate(context.part(parts[1])));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
