#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tutti/data/dataset.h"

namespace tutti::data {

// Datasets made of random operations, over one another. The same seed makes the same dataset, whose passes are the same
// however its threads run: none with a thread is left early and then begun anew.
class RandomDataset {
 public:
  explicit RandomDataset(uint64_t seed) : random_(seed) {}

  // With at most `max_elements`.
  Dataset<Tensor> make(int depth, int64_t max_elements) { return build(depth).dataset.take(max_elements); }

 private:
  using Part = std::map<std::string, Tensor>;

  struct Made {
    Dataset<Tensor> dataset;
    int64_t rank = 0;
    bool equal_shapes = true;
    bool equal_rows = true;   // shapes are equal but for the first axis
    bool threads = false;     // a thread works ahead
    bool left_early = false;  // at a point that differs
  };

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  static int64_t sum(const Tensor& x) { return x.sum().item<int64_t>(); }

  Made source() {
    const int64_t size = 3 + below(8);
    switch (below(4)) {
      case 0: return {.dataset = range(10, 10 + 3 * size, 3)};
      case 1: return {.dataset = from_tensor_slices(at::arange(2 * size).view({size, 2})), .rank = 1};
      case 2: {
        std::vector<std::string> texts;
        for (int64_t i = 0; i < size; ++i) texts.emplace_back(static_cast<size_t>(i), 'x');
        auto words = from_tensor_slices(Strings(texts)).shuffle(3, {.seed = random_()});
        if (coin()) words = words.cache();
        return {.dataset = words.map([](const Strings& text) {
          return at::scalar_tensor(static_cast<int64_t>(text.item().size()), at::kLong);
        })};
      }
      default:
        return {.dataset = from_generator([size] {
                  return [size, n = int64_t{0}]() mutable -> std::optional<Tensor> {
                    if (n == size) return {};
                    return at::scalar_tensor(n++ * 7 % 5, at::kLong);
                  };
                })};
    }
  }

  Made build(int depth) {
    if (depth == 0) return source();
    Made made = build(depth - 1);
    switch (below(4)) {
      case 0: return with_elements(std::move(made));
      case 1: return with_order(std::move(made));
      case 2: return with_shape(std::move(made));
      default: return with_other(std::move(made), depth);
    }
  }

  // Operations on each element.
  Made with_elements(Made made) {
    Dataset<Tensor>& dataset = made.dataset;
    switch (below(6)) {
      case 0: dataset = dataset.map([](const Tensor& x) { return x * 2 + 1; }); break;
      case 5: {
        const MapOptions drawing{.num_parallel_calls = int(below(3)), .seed = random_()};
        dataset = dataset.map([](const Tensor& x) { return x + at::randint(10, {}, x.options()); }, drawing);
        made.threads |= drawing.num_parallel_calls > 0;
        break;
      }
      case 1:
        dataset = dataset.map([](const Tensor& x) { return x + 1; }, {.num_parallel_calls = 1 + int(below(3))});
        made.threads = true;
        break;
      case 2: dataset = dataset.filter([](const Tensor& x) { return sum(x) % 3 != 0; }); break;
      case 3: dataset = dataset.enumerate(below(5)).map([](const Tensor& i, const Tensor& x) { return x + i; }); break;
      default: {
        auto parts = dataset.map([](const Tensor& x) { return Part{{"x", x}, {"y", x * x}}; });
        if (coin()) parts = parts.shuffle(1 + below(5), {.seed = random_(), .reshuffle_each_iteration = coin()});
        if (coin()) parts = parts.cache();
        dataset = parts.map([](const Part& part) { return part.at("x") - part.at("y"); });
      }
    }
    return made;
  }

  // Operations that take, leave, keep and repeat elements.
  Made with_order(Made made) {
    Dataset<Tensor>& dataset = made.dataset;
    switch (below(9)) {
      case 0: dataset = dataset.shuffle(1 + below(8), {.seed = random_(), .reshuffle_each_iteration = coin()}); break;
      case 1:
        if (!made.left_early) dataset = dataset.repeat(2 + below(2));
        break;
      case 2:
        if (made.left_early) break;
        made.left_early = made.threads;
        dataset = dataset.repeat().take(1 + below(15));
        break;
      case 3: dataset = dataset.cache(); break;
      case 4:
        made.threads = true;
        dataset = dataset.prefetch(1 + below(4));
        break;
      case 5:
        made.left_early |= made.threads;
        dataset = dataset.take(1 + below(9));
        break;
      case 6: dataset = dataset.skip(below(4)); break;
      case 7: dataset = dataset.shard(2, below(2)); break;
      default:
        made.left_early |= made.threads;
        dataset = dataset.take_while([](const Tensor& x) { return sum(x) < 60; });
    }
    return made;
  }

  // Operations that join and cut elements.
  Made with_shape(Made made) {
    Dataset<Tensor>& dataset = made.dataset;
    const int64_t size = 1 + below(4);
    const bool drop = coin();
    switch (below(4)) {
      case 0:
        if (!made.equal_shapes) break;
        dataset = dataset.batch(size, {.drop_remainder = drop});
        made.equal_shapes = drop;
        made.equal_rows = true;
        ++made.rank;
        break;
      case 1:
        dataset = dataset.padded_batch(size, {.drop_remainder = drop});
        made.equal_shapes = false;
        made.equal_rows = ++made.rank == 1;
        break;
      case 2:
        if (made.rank == 0) break;
        dataset = dataset.unbatch();
        made.equal_shapes = made.equal_rows;
        made.equal_rows |= --made.rank == 1;
        break;
      default:
        if (made.rank == 0 || !made.equal_rows) break;
        dataset = coin() ? dataset.rebatch(size) : dataset.rebatch({size, 0, 1}, {.drop_remainder = drop});
        made.equal_shapes = false;
    }
    return made;
  }

  // Operations with other datasets.
  Made with_other(Made made, int depth) {
    if (coin()) return interleaved(std::move(made));
    const Made other = build(depth - 1);
    made.threads |= other.threads;
    if (coin() && made.rank == other.rank) {
      made.dataset = made.dataset.concatenate(other.dataset);
      made.equal_shapes = made.rank == 0;
      made.equal_rows = made.rank <= 1;
      made.left_early |= other.left_early;
    } else {
      made.left_early |= other.left_early || made.threads;
      made.dataset = zip(made.dataset, other.dataset).map([](const Tensor& x, const Tensor& y) { return x + y.sum(); });
    }
    return made;
  }

  Made interleaved(Made made) {
    const InterleaveOptions options{.cycle_length = 1 + below(3), .block_length = 1 + below(2)};
    const auto shared = range(3).shuffle(3, {.seed = random_(), .reshuffle_each_iteration = false});
    const bool ahead = coin();
    const auto around = [ahead](const Tensor& x) {
      const auto values = from_tensor_slices(at::stack({x, x + 100, x + 200})).shuffle(2, {.seed = 3});
      return ahead ? values.prefetch(2) : values;
    };
    const auto among_shared = [shared](const Tensor& x) { return shared.map([x](const Tensor& y) { return x + y; }); };
    if (coin()) {
      made.dataset = made.dataset.interleave(among_shared, options);
    } else {
      made.threads |= ahead;
      made.dataset = made.dataset.interleave(around, options);
    }
    return made;
  }

  std::mt19937_64 random_;
};

}  // namespace tutti::data
