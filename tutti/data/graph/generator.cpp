#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class GeneratorIterator : public Iterator {
 public:
  explicit GeneratorIterator(Generator generator) : generator_(std::move(generator)) {}

  bool next(Element& element) override {
    auto made = ended_ ? std::nullopt : generator_();
    if (!made) return !(ended_ = true);
    element = *std::move(made);
    return true;
  }

 private:
  Generator generator_;
  bool ended_ = false;
};

}  // namespace

NodePtr from_generator(std::function<Generator()> make) {
  Node node;
  node.iterate = [make = std::move(make)](const std::stop_token&) {
    return std::make_unique<GeneratorIterator>(make());
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
