#include "tutti/core/error.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class MapIterator : public Iterator {
 public:
  MapIterator(std::unique_ptr<Iterator> input, std::shared_ptr<const MapFunction> function, std::stop_token stop)
      : input_(std::move(input)), function_(std::move(function)), stop_(std::move(stop)) {}

  bool next(Element& element) override {
    if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "map: the consumer is gone");
    if (!input_->next(element)) return false;
    element = at_element("map", index_++, [&] { return (*function_)(std::move(element)); });
    return true;
  }

  void save(StateWriter& state) override {
    state.op("map");
    state.number(index_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("map");
    index_ = state.number_in(0, INT64_MAX);
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  std::shared_ptr<const MapFunction> function_;
  std::stop_token stop_;
  int64_t index_ = 0;  // of the input's next element
};

}  // namespace

NodePtr map(const NodePtr& input, MapFunction function) {
  const auto shared = std::make_shared<const MapFunction>(std::move(function));
  Node node = after(input, [=](const NodePtr& other) { return map(other, *shared); });
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.iterate = [input, shared](const Context& context) {
    return std::make_unique<MapIterator>(input->iterate(context), shared, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
