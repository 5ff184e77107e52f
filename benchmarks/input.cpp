// What a batch of 64 MNIST-shaped images costs: drawn from memory by shuffle(10000).batch(64), and through an
// element-wise map.
//
//   ./dev bench input
//
//   ratio     over the plain program's time, the median of the pairs; p10 and p90 are the band in which 80 % lie.
//             The plain program shuffles row numbers and copies rows into a new tensor, or calls LibTorch row by row.
//   raw_us, ours_us   the work for a batch, on the caller's thread
//   wait_us   what a trainer that computes for 1 ms between two batches waits for one, behind prefetch(buffer)
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/stack.h>

#include <cstring>
#include <numeric>
#include <random>

#include "paired.h"
#include "tutti/data/dataset.h"

namespace tutti::benchmarks {
namespace {

constexpr int64_t kRows = 60'000;
constexpr int64_t kBatch = 64;
constexpr int kSteps = 200;

using Samples = data::Dataset<std::tuple<Tensor, Tensor>>;

const Tensor& images(at::ScalarType dtype) {
  static const Tensor bytes = at::randint(256, {kRows, 28, 28}, at::kByte);
  static const Tensor floats = bytes.to(at::kFloat);
  return dtype == at::kByte ? bytes : floats;
}
const Tensor& labels() {
  static const Tensor labels = at::randint(10, {kRows}, at::kLong);
  return labels;
}

// Batches of shuffled rows, without end.
class PlainBatches {
 public:
  explicit PlainBatches(const Tensor& images) : images_(images), order_(kRows) {
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::shuffle(order_, engine_);
  }

  std::pair<Tensor, Tensor> next() {
    if (position_ + kBatch > kRows) {
      std::ranges::shuffle(order_, engine_);
      position_ = 0;
    }
    std::pair batch(gather(images_), gather(labels()));
    position_ += kBatch;
    return batch;
  }

 private:
  Tensor gather(const Tensor& rows) const {
    auto sizes = rows.sizes().vec();
    sizes[0] = kBatch;
    const Tensor batch = at::empty(sizes, rows.options());
    const size_t row_bytes = rows.nbytes() / kRows;
    for (size_t i = 0; i < kBatch; ++i)
      std::memcpy(
          static_cast<char*>(batch.mutable_data_ptr()) + i * row_bytes,
          static_cast<const char*>(rows.const_data_ptr()) + order_[static_cast<size_t>(position_) + i] * row_bytes,
          row_bytes);
    return batch;
  }

  Tensor images_;
  std::mt19937_64 engine_{1};
  std::vector<size_t> order_;
  int64_t position_ = 0;
};

Samples shuffled(at::ScalarType dtype) {
  return data::from_tensor_slices(images(dtype), labels()).shuffle(10'000, {.seed = 1}).repeat().batch(kBatch);
}

void ShuffleBatch(benchmark::State& state, at::ScalarType dtype) {
  PlainBatches plain(images(dtype));
  auto ours = shuffled(dtype).begin();
  compare(
      state, kSteps, [&] { benchmark::DoNotOptimize(plain.next()); }, [&] { ++ours; });
}

Tensor normalized(const Tensor& image) { return image.to(at::kFloat).div_(255); }

void FirstEpochWithMap(benchmark::State& state) {
  const auto normalize = [](const Tensor& image, const Tensor& label) { return std::tuple(normalized(image), label); };
  auto ours = data::from_tensor_slices(images(at::kByte), labels())
                  .map(normalize)
                  .cache()
                  .repeat()
                  .shuffle(10'000, {.seed = 1})
                  .batch(kBatch)
                  .begin();
  int64_t row = 0;
  const auto plain = [&] {
    std::vector<Tensor> rows, numbers;
    for (int64_t i = 0; i < kBatch; ++i, row = (row + 1) % kRows) {
      rows.push_back(normalized(images(at::kByte).select(0, row)));
      numbers.push_back(labels().select(0, row));
    }
    benchmark::DoNotOptimize(std::pair(at::stack(rows), at::stack(numbers)));
  };
  compare(state, 20, plain, [&] { ++ours; });
}

// By a function that takes less time than it takes to wake a thread.
void MapOnThreads(benchmark::State& state) {
  const auto next = [](const Tensor& x) { return x + 1; };
  const auto elements = data::range(int64_t{1} << 40);
  auto serial = elements.map(next).begin();
  auto ours = elements.map(next, {.num_parallel_calls = static_cast<int>(state.range(0))}).begin();
  compare(
      state, 10'000, [&] { ++serial; }, [&] { ++ours; });
}

void WaitForPrefetched(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  auto iterator = shuffled(at::kByte).prefetch(state.range(0)).begin();
  std::vector<double> waits;
  for (auto _ : state) {
    const auto computed = Clock::now() + std::chrono::milliseconds(1);
    while (Clock::now() < computed) continue;
    const auto begin = Clock::now();
    ++iterator;
    waits.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    state.SetIterationTime(waits.back());
  }
  state.counters["wait_us"] = 1e6 * quantile(waits, 0.5);
  state.counters["p10"] = 1e6 * quantile(waits, 0.1);
  state.counters["p90"] = 1e6 * quantile(waits, 0.9);
}

BENCHMARK_CAPTURE(ShuffleBatch, bytes, at::kByte)->Iterations(31)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(ShuffleBatch, floats, at::kFloat)->Iterations(31)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(FirstEpochWithMap)->Iterations(31)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(MapOnThreads)
    ->ArgName("calls")
    ->Arg(1)
    ->Arg(2)
    ->Arg(8)
    ->Iterations(31)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(WaitForPrefetched)
    ->ArgName("buffer")
    ->Arg(2)
    ->Arg(16)
    ->Iterations(2000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
  at::set_num_threads(1);
  tutti::benchmarks::run(argc, argv);
}
