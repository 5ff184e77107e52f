// The in-process all-reduce (float32, in place) of 2, 4 and 8 buffers by 1 and 2 threads.
//
// Beside each result:
//   GB/s      what the reduction reads and writes, 2 n S bytes for n buffers of S bytes, over its time
//   fraction  of a memory probe's speed in the same run: a loop that reads and writes the same n buffers in place, one
//             after the other (values[j] += 1), in tiles of 64 KB that the same threads claim. The two take turns, and
//             the medians of their times are compared. 1 means that the reduction costs as much as touching its memory.
#include <atomic>
#include <new>

#include "paired.h"
#include "tutti/collectives/local/host_reduction.h"
#include "tutti/device/workers.h"

namespace tutti::benchmarks {
namespace {

// Memory that begins where LibTorch lets that of tensors begin. What malloc gives for large vectors begins 16 bytes
// into a cache line, and then each of the processor's vectors lies in two lines.
template <class T>
struct AsTensors {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AsTensors() = default;
  template <class U>
  explicit AsTensors(const AsTensors<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kAlignment); }
  bool operator==(const AsTensors&) const = default;
};

using Buffers = std::vector<std::vector<float, AsTensors<float>>>;

constexpr size_t kTile = 16 * 1024;  // elements

void reduce(Workers& workers, Buffers& buffers) {
  std::vector<void*> pointers;
  for (auto& buffer : buffers) pointers.push_back(buffer.data());
  const std::vector<const void*> inputs(pointers.begin(), pointers.end());
  const ReductionItem item{
      .inputs = inputs, .outputs = pointers, .count = static_cast<int64_t>(buffers.front().size())};
  HostReduction reduction({&item, 1});
  workers.run([&](int) { reduction.run(); });
}

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void touch(float* values, size_t count) {
  for (size_t j = 0; j < count; ++j) values[j] += 1;
}

void probe(Workers& workers, Buffers& buffers) {
  std::atomic<size_t> claimed = 0;
  workers.run([&](int) {
    for (size_t begin; (begin = claimed.fetch_add(kTile)) < buffers.front().size();)
      for (auto& buffer : buffers) touch(buffer.data() + begin, std::min(kTile, buffer.size() - begin));
  });
}

void AllReduce(benchmark::State& state) {
  const auto num_buffers = static_cast<size_t>(state.range(0));
  const auto num_bytes = static_cast<size_t>(state.range(1));
  Workers workers(static_cast<int>(state.range(2)));
  Buffers buffers(num_buffers, Buffers::value_type(num_bytes / sizeof(float)));
  std::vector<double> reductions, probes;
  for (auto _ : state) {
    probes.push_back(seconds_per_step([&] { probe(workers, buffers); }, 1));
    reductions.push_back(seconds_per_step([&] { reduce(workers, buffers); }, 1));
    state.SetIterationTime(reductions.back());
  }
  const double time = quantile(reductions, 0.5);
  state.counters["median_us"] = 1e6 * time;
  state.counters["GB/s"] = 2e-9 * static_cast<double>(num_buffers * num_bytes) / time;
  state.counters["fraction"] = quantile(probes, 0.5) / time;
}

BENCHMARK(AllReduce)
    ->ArgNames({"buffers", "bytes", "threads"})
    ->ArgsProduct({{2, 4, 8}, {1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26}, {1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti::benchmarks

BENCHMARK_MAIN();
