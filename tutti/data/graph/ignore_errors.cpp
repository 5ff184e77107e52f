#include <exception>

#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class IgnoreErrorsIterator : public Iterator {
 public:
  IgnoreErrorsIterator(std::unique_ptr<Iterator> input, const IgnoreErrorsOptions& options, std::stop_token stop)
      : input_(std::move(input)), options_(options), stop_(std::move(stop)) {}

  bool next(Element& element) override {
    while (true) {
      try {
        return input_->next(element);
      } catch (...) {
        if (stop_.stop_requested()) throw;
        if (options_.log_warning) warn(str("ignore_errors: ", text_of(std::current_exception())));
      }
    }
  }

  void save(StateWriter& state) override {
    state.op("ignore_errors");
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("ignore_errors");
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  IgnoreErrorsOptions options_;
  std::stop_token stop_;
};

}  // namespace

NodePtr ignore_errors(const NodePtr& input, const IgnoreErrorsOptions& options) {
  Node node = after(input, [options](const NodePtr& other) { return ignore_errors(other, options); });
  node.cardinality = kUnknown;
  node.iterate = [=](const Context& context) {
    return std::make_unique<IgnoreErrorsIterator>(input->iterate(context), options, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
