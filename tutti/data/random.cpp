#include "tutti/data/random.h"

#include <ATen/ops/scalar_tensor.h>

#include <bit>

#include "tutti/data/graph/random.h"

namespace tutti::data {
namespace {

class RandomIterator : public graph::Iterator {
 public:
  explicit RandomIterator(const graph::Seed& seed) : seed_(seed), random_(seed.value) {}

  bool next(graph::Element& element) override {
    element = graph::Element({at::scalar_tensor(static_cast<int64_t>(random_.next() >> 32), at::kLong)});
    return true;
  }

  void save(graph::StateWriter& state) override {
    state.op("random");
    if (seed_.is_given) state.given_seed(seed_.value);
    state.number(std::bit_cast<int64_t>(random_.state()));
  }
  void restore(graph::StateReader& state) override {
    state.op("random");
    random_ = graph::SplitMix64(std::bit_cast<uint64_t>(state.number()));
  }

 private:
  graph::Seed seed_;
  graph::SplitMix64 random_;
};

}  // namespace

Dataset<Tensor> random(std::optional<uint64_t> seed) {
  graph::Node node;
  node.cardinality = kInfinite;
  node.batch_size = graph::kNotBatched;
  node.uniform = true;
  node.iterate = [seed = graph::seed_or_drawn(seed)](const graph::Context&) {
    return std::make_unique<RandomIterator>(seed);
  };
  return Dataset<Tensor>(std::make_shared<const graph::Node>(std::move(node)));
}

}  // namespace tutti::data
