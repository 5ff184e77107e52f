#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195): its whole state is one number.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state() const { return state_; }

  // Uniform in [0, n), by the upper half of a 128-bit product.
  size_t below(size_t n) { return static_cast<size_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }

 private:
  uint64_t state_;
};

// Passes are numbered in the order in which they begin; the order of pass n is a function of the seed and n.
class Passes : public SharedState, public std::enable_shared_from_this<Passes> {
 public:
  Passes(uint64_t seed, bool reshuffle) : reshuffle_(reshuffle), seed_(seed) {}

  // What the random numbers of a new pass begin with.
  uint64_t begin() {
    const std::scoped_lock lock(mutex_);
    const uint64_t pass = reshuffle_ ? next_++ : 0;
    return SplitMix64(seed_ ^ SplitMix64(pass).next()).next();
  }

  void save(StateWriter& state) const override {
    const std::scoped_lock lock(mutex_);
    state.op("passes of shuffle", {reshuffle_});
    state.number(static_cast<int64_t>(seed_));
    state.number(static_cast<int64_t>(next_));
  }
  void restore(StateReader& state) override {
    state.op("passes of shuffle", {reshuffle_});
    const auto seed = static_cast<uint64_t>(state.number());
    const auto next = static_cast<uint64_t>(state.number());
    state.when_restored([self = shared_from_this(), seed, next] {
      const std::scoped_lock lock(self->mutex_);
      self->seed_ = seed;
      self->next_ = next;
    });
  }

 private:
  const bool reshuffle_;
  mutable std::mutex mutex_;
  uint64_t seed_;  // guarded by mutex_, as the next
  uint64_t next_ = 0;
};

// A buffer of elements; each next() gives a random one and refills its place.
class ShuffleIterator : public Iterator {
 public:
  ShuffleIterator(std::unique_ptr<Iterator> input, int64_t buffer_size, uint64_t seed)
      : input_(std::move(input)), buffer_size_(static_cast<size_t>(buffer_size)), random_(seed) {}

  bool next(Element& element) override {
    while (!ended_ && buffer_.size() < buffer_size_) {
      Element filling;
      ended_ = !input_->next(filling);
      if (!ended_) buffer_.push_back(std::move(filling));
    }
    if (buffer_.empty()) return false;
    std::swap(buffer_[random_.below(buffer_.size())], buffer_.back());
    element = std::move(buffer_.back());
    buffer_.pop_back();
    return true;
  }

  void save(StateWriter& state) override {
    state.op("shuffle", {static_cast<int64_t>(buffer_size_)});
    input_->save(state);
    state.number(static_cast<int64_t>(random_.state()));
    state.number(ended_);
    state.elements(buffer_);
  }
  void restore(StateReader& state) override {
    state.op("shuffle", {static_cast<int64_t>(buffer_size_)});
    input_->restore(state);
    random_ = SplitMix64(static_cast<uint64_t>(state.number()));
    ended_ = state.flag();
    buffer_ = state.elements();
    if (buffer_.size() > buffer_size_) state.refuse(str("a shuffle's buffer of ", buffer_.size(), " elements"));
  }

 private:
  std::unique_ptr<Iterator> input_;
  size_t buffer_size_;
  SplitMix64 random_;
  bool ended_ = false;
  std::vector<Element> buffer_;
};

uint64_t draw_seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get<at::CPUGeneratorImpl>()->random64();
}

}  // namespace

NodePtr shuffle(const NodePtr& input, int64_t buffer_size, const ShuffleOptions& options) {
  if (buffer_size < 1)
    throw Error(ErrorCode::invalid_argument, str("shuffle: buffer_size ", buffer_size, "; it must be at least 1"));
  const uint64_t seed = options.seed ? *options.seed : draw_seed();
  const auto passes = std::make_shared<Passes>(seed, options.reshuffle_each_iteration);
  Node node = after(input);
  node.shared = passes;
  node.iterate = [=](const std::stop_token& stop) {
    const uint64_t pass_seed = passes->begin();
    return std::make_unique<ShuffleIterator>(input->iterate(stop), buffer_size, pass_seed);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
