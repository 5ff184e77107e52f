#include <utility>

#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class MadeByIterator : public Iterator {
 public:
  MadeByIterator(std::unique_ptr<Iterator> input, std::string call)
      : input_(std::move(input)), call_(std::move(call)) {}

  bool next(Element& element) override { return input_->next(element); }

  void save(StateWriter& state) override {
    state.op(call_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op(call_);
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  std::string call_;
};

}  // namespace

NodePtr made_by(const NodePtr& input, std::string call) {
  Node node = after(input, [call](const NodePtr& other) { return made_by(other, call); });
  node.iterate = [input, call = std::move(call)](const Context& context) {
    return std::make_unique<MadeByIterator>(input->iterate(context), call);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
