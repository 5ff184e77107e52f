#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pass_over.h"

namespace tutti::data::graph {
namespace {

class ShardIterator : public Iterator {
 public:
  ShardIterator(std::unique_ptr<Iterator> input, int64_t num_shards, int64_t index, std::stop_token stop)
      : input_(std::move(input)),
        num_shards_(num_shards),
        index_(index),
        passed_over_(index),
        pass_over_("shard", std::move(stop)) {}

  bool next(Element& element) override {
    for (; passed_over_ > 0; --passed_over_)
      if (!pass_over_(*input_)) return false;
    passed_over_ = num_shards_ - 1;
    return input_->next(element);
  }

  void save(StateWriter& state) override {
    state.op("shard", {num_shards_, index_});
    state.number(passed_over_);
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("shard", {num_shards_, index_});
    passed_over_ = state.number_in(0, num_shards_ - 1);
    input_->restore(state);
  }

 private:
  std::unique_ptr<Iterator> input_;
  int64_t num_shards_;
  int64_t index_;
  int64_t passed_over_;  // elements of other shards before the next of this one
  PassOver pass_over_;
};

NodePtr shard_hint(const NodePtr& input) {
  Node node = after(input, shard_hint);
  node.role = Role::shard_hint;
  node.iterate = [](const Context&) -> std::unique_ptr<Iterator> {
    throw Error(ErrorCode::failed_precondition,
                "shard: the shard that the hint stands for was not put in its place; distribute the dataset under "
                "AutoShardPolicy::hint, or call shard with numbers");
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr shard(const NodePtr& input, int64_t num_shards, int64_t index) {
  if (num_shards == kShardHint) return shard_hint(input);
  if (num_shards < 1 || index < 0 || index >= num_shards)
    throw Error(ErrorCode::invalid_argument, str("shard: index ", index, " of ", num_shards,
                                                 " shards; there must be at least one and 0 <= index < num_shards"));
  Node node = after(input, [=](const NodePtr& other) { return shard(other, num_shards, index); });
  if (input->cardinality >= 0)
    node.cardinality = input->cardinality / num_shards + (index < input->cardinality % num_shards);
  node.iterate = [=](const Context& context) {
    return std::make_unique<ShardIterator>(input->iterate(context), num_shards, index, context.stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
