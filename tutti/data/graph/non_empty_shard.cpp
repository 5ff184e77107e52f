#include <exception>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pass_over.h"

namespace tutti::data::graph {
namespace {

// Looks, before it gives its first element, whether the other shards have one too.
class NonEmptyShardIterator : public Iterator {
 public:
  NonEmptyShardIterator(std::unique_ptr<Iterator> input, int64_t num_shards, int64_t index, std::stop_token stop)
      : input_(std::move(input)),
        num_shards_(num_shards),
        index_(index),
        passed_over_(index),
        unseen_(num_shards - index - 1),
        pass_over_("auto-sharding", std::move(stop)) {}

  bool next(Element& element) override {
    for (; passed_over_ > 0; --passed_over_)
      if (!pass_over_(*input_)) return false;
    passed_over_ = num_shards_ - 1;
    std::exception_ptr error;
    try {
      if (!input_->next(element)) return false;
    } catch (...) {
      error = std::current_exception();
    }
    for (; unseen_ > 0; --unseen_, --passed_over_)
      if (!pass_over_(*input_)) refuse();
    if (error) std::rethrow_exception(error);
    return true;
  }

  void save(StateWriter& state) override {
    state.op("non_empty_shard", {num_shards_, index_});
    state.number(passed_over_);
    state.number(unseen_);
    input_->save(state);
  }

  void restore(StateReader& state) override {
    state.op("non_empty_shard", {num_shards_, index_});
    passed_over_ = state.number_in(0, num_shards_ - 1);
    unseen_ = state.number_in(0, num_shards_ - 1);
    input_->restore(state);
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(ErrorCode::invalid_argument,
                str("auto-sharding: the dataset has ", num_shards_ - unseen_, " elements (or files) for ", num_shards_,
                    " input pipelines; each needs one: use fewer pipelines, more files, or AutoShardPolicy::off"));
  }

  std::unique_ptr<Iterator> input_;
  int64_t num_shards_;
  int64_t index_;
  int64_t passed_over_;  // elements of other shards before the next of this one
  int64_t unseen_;       // shards behind this one whose first element was not seen
  PassOver pass_over_;
};

}  // namespace

NodePtr non_empty_shard(const NodePtr& input, int64_t num_shards, int64_t index) {
  if (num_shards == 1) return input;
  Node node = *shard(input, num_shards, index);
  node.rebuild = [=](const std::vector<NodePtr>& inputs) { return non_empty_shard(inputs.at(0), num_shards, index); };
  node.iterate = [=](const Context& context) {
    return std::make_unique<NonEmptyShardIterator>(input->iterate(context), num_shards, index, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
