#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class GeneratorIterator : public Iterator {
 public:
  explicit GeneratorIterator(Generator generator) : generator_(std::move(generator)) {}

  bool next(Element& element) override {
    if (ended_) return false;
    ended_ = true;  // also where the generator throws
    auto made = at_element("from_generator", taken_, [this] { return generator_(); });
    if (!made) return false;
    element = *std::move(made);
    ended_ = false;
    ++taken_;
    return true;
  }

  void save(StateWriter& state) override {
    state.op("from_generator");
    state.number(taken_);
    state.number(ended_);
  }
  // A generator cannot be saved: a new one gives as many elements, which are dropped.
  void restore(StateReader& state) override {
    state.op("from_generator");
    const int64_t taken = state.number_in(0, INT64_MAX);
    ended_ = state.flag();
    for (taken_ = 0; taken_ < taken; ++taken_)
      if (!generator_())
        throw Error(ErrorCode::failed_precondition,
                    str("restoring an iterator: ", taken, " elements of a generator had been taken, and the new one ",
                        "gives ", taken_, "; it must give what it gave"));
  }

 private:
  Generator generator_;
  int64_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace

NodePtr from_generator(std::function<Generator()> make) {
  Node node;
  node.iterate = [make = std::move(make)](const Context&) { return std::make_unique<GeneratorIterator>(make()); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
