#include <algorithm>
#include <exception>

#include "tutti/core/error.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

namespace tutti::data::graph {
namespace {

class ZipIterator : public Iterator {
 public:
  explicit ZipIterator(std::vector<std::unique_ptr<Iterator>> inputs) : inputs_(std::move(inputs)) {}

  // Where an input throws the others go on by one too, so that all stay in step.
  bool next(Element& element) override {
    std::vector<Leaf> leaves;
    std::vector<std::vector<std::string>> keys;
    std::exception_ptr error;
    for (const auto& input : inputs_) {
      Element part;
      try {
        ended_ = ended_ || !input->next(part);
      } catch (...) {
        if (!error) error = std::current_exception();
      }
      if (ended_) break;
      if (part.keys()) keys.insert(keys.end(), part.keys()->begin(), part.keys()->end());
      for (Leaf& leaf : std::move(part).leaves()) leaves.push_back(std::move(leaf));
    }
    if (error) std::rethrow_exception(error);
    if (ended_) return false;
    element = Element(std::move(leaves), keys.empty() ? nullptr : std::make_shared<const Keys::element_type>(keys));
    return true;
  }

  void save(StateWriter& state) override {
    state.op("zip", {static_cast<int64_t>(inputs_.size())});
    state.number(ended_);
    for (const auto& input : inputs_) input->save(state);
  }
  void restore(StateReader& state) override {
    state.op("zip", {static_cast<int64_t>(inputs_.size())});
    ended_ = state.flag();
    for (const auto& input : inputs_) input->restore(state);
  }

 private:
  std::vector<std::unique_ptr<Iterator>> inputs_;
  bool ended_ = false;
};

int64_t shortest(const std::vector<NodePtr>& inputs) {
  int64_t result = kInfinite;
  for (const NodePtr& input : inputs) {
    if (input->cardinality == kUnknown) return kUnknown;
    if (input->cardinality != kInfinite)
      result = result == kInfinite ? input->cardinality : std::min(result, input->cardinality);
  }
  return result;
}

}  // namespace

NodePtr zip(const std::vector<NodePtr>& inputs) {
  if (inputs.empty()) throw Error(ErrorCode::invalid_argument, "zip: no datasets; there must be at least one");
  Node node = after_all(inputs, zip);
  node.cardinality = shortest(inputs);
  node.iterate = [inputs, parts = parts_of(inputs)](const Context& context) {
    std::vector<std::unique_ptr<Iterator>> iterators;
    for (size_t i = 0; i < inputs.size(); ++i) iterators.push_back(inputs[i]->iterate(context.part(parts[i])));
    return std::make_unique<ZipIterator>(std::move(iterators));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
