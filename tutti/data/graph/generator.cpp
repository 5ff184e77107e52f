#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class GeneratorIterator : public Iterator {
 public:
  explicit GeneratorIterator(std::function<Generator()> make) : make_(std::move(make)) {}

  bool next(Element& element) override {
    if (ended_) return false;
    ended_ = true;  // also where the generator throws
    auto made = at_element("from_generator", taken_, [this] { return generate(); });
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
      if (!generate())
        throw Error(ErrorCode::failed_precondition,
                    str("restoring an iterator: ", taken, " elements of a generator had been taken, and the new one ",
                        "gives ", taken_, "; it must give what it gave"));
  }

 private:
  // Made when the first element is asked for: a pass that is begun has run no function of the program's.
  std::optional<Element> generate() {
    if (!generator_) generator_ = make_();
    return generator_();
  }

  std::function<Generator()> make_;
  Generator generator_;
  int64_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace

NodePtr from_generator(std::function<Generator()> make) {
  Node node;
  node.iterate = [make = std::move(make)](const Context&) { return std::make_unique<GeneratorIterator>(make); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
