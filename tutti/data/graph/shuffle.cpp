#include <ATen/CPUGeneratorImpl.h>

#include <atomic>
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

  // Uniform in [0, n), by the upper half of a 128-bit product.
  size_t below(size_t n) { return static_cast<size_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }

 private:
  uint64_t state_;
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

// A dataset that is rebuilt goes on with the order, so that no two of its passes are alike.
struct Order {
  uint64_t seed = 0;
  bool reshuffle = true;
  // Passes are numbered in the order in which they begin; the order of pass n is a function of the seed and n.
  std::atomic<uint64_t> num_passes = 0;

  uint64_t next_seed() {
    const uint64_t pass = reshuffle ? num_passes.fetch_add(1) : 0;
    return SplitMix64(seed ^ SplitMix64(pass).next()).next();
  }
};

NodePtr shuffled(const NodePtr& input, int64_t buffer_size, const std::shared_ptr<Order>& order) {
  Node node = after(input, [=](const NodePtr& other) { return shuffled(other, buffer_size, order); });
  node.role = Role::shuffle;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<ShuffleIterator>(input->iterate(stop), buffer_size, order->next_seed());
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr shuffle(const NodePtr& input, int64_t buffer_size, const ShuffleOptions& options) {
  if (buffer_size < 1)
    throw Error(ErrorCode::invalid_argument, str("shuffle: buffer_size ", buffer_size, "; it must be at least 1"));
  const auto order = std::make_shared<Order>();
  order->seed = options.seed ? *options.seed : draw_seed();
  order->reshuffle = options.reshuffle_each_iteration;
  return shuffled(input, buffer_size, order);
}

}  // namespace tutti::data::graph
