// An all-reduce of one float32 tensor on 8 logical CPUs by each of the cross-device ops: 8 values in, 8 results out, in
// memory of their own.
//
//   ./dev bench cross_device_ops
//
// Beside each result, taking turns with it (see paired.h): a memory probe that copies the same 8 values to 8 buffers in
// tiles, on all cores. `ratio` is the op's time over the probe's; ours_us and raw_us are the times of the two.
#include <atomic>

#include "paired.h"
#include "tutti/device/workers.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

constexpr int kReplicas = 8;
constexpr int64_t kTile = 64 * 1024;  // bytes

SharedCrossDeviceOps default_ops() { return {}; }
SharedCrossDeviceOps one_device() { return ReductionToOneDevice(); }
SharedCrossDeviceOps hierarchical() { return HierarchicalCopyAllReduce(); }

std::vector<Tensor> tensors(int64_t bytes) {
  std::vector<Tensor> all;
  for (int r = 0; r < kReplicas; ++r) all.push_back(torch::ones({bytes / 4}));
  return all;
}

void copy_tiles(Workers& workers, const std::vector<Tensor>& from, const std::vector<Tensor>& to, int64_t bytes) {
  std::atomic<int64_t> claimed = 0;
  workers.run([&](int) {
    for (int64_t begin; (begin = claimed.fetch_add(kTile)) < bytes;)
      for (size_t r = 0; r < from.size(); ++r)
        std::memcpy(static_cast<char*>(to[r].data_ptr()) + begin, static_cast<const char*>(from[r].data_ptr()) + begin,
                    static_cast<size_t>(std::min(kTile, bytes - begin)));
  });
}

void all_reduce(benchmark::State& state, SharedCrossDeviceOps (*ops)()) {
  const int64_t bytes = state.range(0);
  const auto cpus = configure_logical_cpus(kReplicas);
  const MirroredStrategy strategy({.devices = cpus, .cross_device_ops = ops()});
  const Destinations destinations = cpus;
  const PerReplica<Tensor> values(tensors(bytes));
  const auto copies = tensors(bytes);
  Workers workers(bytes > kTile ? static_cast<int>(std::thread::hardware_concurrency()) : 1);
  const c10::InferenceMode without_autograd;
  compare(
      state, bytes > (1 << 20) ? 1 : 50, [&] { copy_tiles(workers, values.values(), copies, bytes); },
      [&] { strategy.reduce_to(ReduceOp::sum, values, destinations); });
}

BENCHMARK_CAPTURE(all_reduce, default, default_ops)
    ->RangeMultiplier(4)
    ->Range(1 << 10, 1 << 26)
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(all_reduce, one_device, one_device)
    ->RangeMultiplier(4)
    ->Range(1 << 10, 1 << 26)
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(all_reduce, hierarchical, hierarchical)
    ->RangeMultiplier(4)
    ->Range(1 << 10, 1 << 26)
    ->Iterations(15)
    ->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
