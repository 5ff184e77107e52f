#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/keeper.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

namespace tutti::data::graph {
namespace {

// A buffer of elements; each next() gives a random one and refills its place.
class ShuffleIterator : public Iterator {
 public:
  ShuffleIterator(std::unique_ptr<Iterator> input, int64_t buffer_size, const Passes& passes, const Context& context,
                  Keeper keeper)
      : input_(std::move(input)),
        buffer_size_(static_cast<size_t>(buffer_size)),
        has_new_orders_(passes.draws_anew()),
        given_seed_(passes.given_seed(context)),
        random_(passes.seed_of(context)),
        keeper_(std::move(keeper)) {}

  bool next(Element& element) override {
    while (!ended_ && buffer_.size() < buffer_size_) {
      Element filling;
      ended_ = !input_->next(filling);
      if (!ended_) buffer_.push_back(keeper_(std::move(filling)));
    }
    if (buffer_.empty()) return false;
    std::swap(buffer_[random_.below(buffer_.size())], buffer_.back());
    element = std::move(buffer_.back());
    buffer_.pop_back();
    return true;
  }

  void save(StateWriter& state) override {
    state.op("shuffle", arguments());
    state.given_seed(given_seed_);
    input_->save(state);
    state.number(static_cast<int64_t>(random_.state()));
    state.number(ended_);
    state.elements(buffer_);
  }
  void restore(StateReader& state) override {
    state.op("shuffle", arguments());
    input_->restore(state);
    random_ = SplitMix64(static_cast<uint64_t>(state.number()));
    ended_ = state.flag();
    buffer_ = state.elements();
    if (buffer_.size() > buffer_size_) state.refuse(str("a shuffle's buffer of ", buffer_.size(), " elements"));
  }

 private:
  std::vector<int64_t> arguments() const {
    std::vector<int64_t> arguments{static_cast<int64_t>(buffer_size_)};
    if (!has_new_orders_) arguments.push_back(0);
    return arguments;
  }

  std::unique_ptr<Iterator> input_;
  size_t buffer_size_;
  bool has_new_orders_;  // in later passes
  std::optional<uint64_t> given_seed_;
  SplitMix64 random_;
  Keeper keeper_;
  bool ended_ = false;
  std::vector<Element> buffer_;
};

// A dataset that is rebuilt shares the passes' numbers, so that no two of its iterators are alike.
NodePtr shuffled(const NodePtr& input, int64_t buffer_size, const std::shared_ptr<Passes>& passes) {
  Node node = after(input, [=](const NodePtr& other) { return shuffled(other, buffer_size, passes); });
  node.role = Role::shuffle;
  node.shared = passes;
  node.iterate = [=](const Context& context) {
    return std::make_unique<ShuffleIterator>(input->iterate(context), buffer_size, *passes, context, Keeper(*input));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr shuffle(const NodePtr& input, int64_t buffer_size, const ShuffleOptions& options) {
  if (buffer_size < 1)
    throw Error(ErrorCode::invalid_argument, str("shuffle: buffer_size ", buffer_size, "; it must be at least 1"));
  return shuffled(input, buffer_size,
                  std::make_shared<Passes>("shuffle", seed_or_drawn(options.seed), options.reshuffle_each_iteration));
}

}  // namespace tutti::data::graph
