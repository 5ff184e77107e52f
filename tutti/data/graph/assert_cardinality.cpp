#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class AssertCardinalityIterator : public Iterator {
 public:
  AssertCardinalityIterator(std::unique_ptr<Iterator> input, int64_t count) : input_(std::move(input)), count_(count) {}

  bool next(Element& element) override {
    if (refused_) return false;
    const bool any = input_->next(element);
    refused_ = true;
    if (count_ == kInfinite ? !any : given_ + any > count_ || (!any && given_ < count_))
      throw Error(ErrorCode::failed_precondition,
                  str("assert_cardinality: the dataset has ", any ? "more than " : "", given_, " elements; ",
                      count_ == kInfinite ? "no end" : str(count_), " was asserted"));
    refused_ = false;
    given_ += any;
    return any;
  }

  void save(StateWriter& state) override {
    state.op("assert_cardinality", {count_});
    input_->save(state);
    state.number(given_);
    state.number(refused_);
  }
  void restore(StateReader& state) override {
    state.op("assert_cardinality", {count_});
    input_->restore(state);
    given_ = state.number_in(0, count_ == kInfinite ? INT64_MAX : count_);
    refused_ = state.flag();
  }

 private:
  std::unique_ptr<Iterator> input_;
  int64_t count_;
  int64_t given_ = 0;
  bool refused_ = false;  // the end
};

}  // namespace

NodePtr assert_cardinality(const NodePtr& input, int64_t count) {
  if (count < 0 && count != kInfinite)
    throw Error(ErrorCode::invalid_argument,
                str("assert_cardinality: ", count, "; it must be at least 0, or kInfinite"));
  if (input->cardinality != kUnknown && input->cardinality != count)
    throw Error(ErrorCode::invalid_argument,
                str("assert_cardinality: ", count, " is asserted of a dataset whose cardinality is ",
                    input->cardinality, " (", kInfinite, " is infinite)"));
  Node node = after(input, std::identity());  // a part of the input has fewer
  node.cardinality = count;
  node.iterate = [=](const Context& context) {
    return std::make_unique<AssertCardinalityIterator>(input->iterate(context), count);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
