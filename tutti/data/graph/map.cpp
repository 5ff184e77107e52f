#include "tutti/core/error.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/element_draws.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

namespace tutti::data::graph {
namespace {

class MapIterator : public Iterator {
 public:
  MapIterator(std::unique_ptr<Iterator> input, std::shared_ptr<const MapFunction> function, ElementDraws draws,
              std::stop_token stop)
      : input_(std::move(input)), function_(std::move(function)), draws_(draws), stop_(std::move(stop)) {}

  bool next(Element& element) override {
    if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "map: the consumer is gone");
    if (!input_->next(element)) return false;
    const int64_t index = index_++;
    element =
        at_element("map", index, [&] { return draws_.call(index, [&] { return (*function_)(std::move(element)); }); });
    return true;
  }

  void save(StateWriter& state) override {
    state.op(draws_.op("map"));
    state.number(index_);
    draws_.save(state);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op(draws_.op("map"));
    index_ = state.number_in(0, INT64_MAX);
    draws_.restore(state);
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  std::shared_ptr<const MapFunction> function_;
  ElementDraws draws_;
  std::stop_token stop_;
  int64_t index_ = 0;  // of the input's next element
};

// A dataset that is rebuilt shares the passes' numbers.
NodePtr mapped(const NodePtr& input, const std::shared_ptr<const MapFunction>& function,
               const std::shared_ptr<Passes>& passes) {
  Node node = after(input, [=](const NodePtr& other) { return mapped(other, function, passes); });
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.shared = passes;
  node.iterate = [=](const Context& context) {
    return std::make_unique<MapIterator>(input->iterate(context), function, ElementDraws(passes, context),
                                         context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr map(const NodePtr& input, MapFunction function, std::optional<uint64_t> seed) {
  const auto passes = seed ? std::make_shared<Passes>("map", seed_or_drawn(seed), /*again=*/true) : nullptr;
  return mapped(input, std::make_shared<const MapFunction>(std::move(function)), passes);
}

}  // namespace tutti::data::graph
