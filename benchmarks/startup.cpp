// What logical devices cost before a program has done anything: memory, and time to the end of the first training
// step. Each number comes from a fresh process; processes with 1 and with 8 devices take turns.
//
//   ./dev bench startup
//
//   more_MB          peak memory with 8 devices less that with 1, the median of the pairs
//   first_step_ms    from the start of main, LibTorch being loaded, to the end of the first step, with 8 devices
//   one_device_ms    the same with one device
//   registration_ms  the part of it that registering the kernels of mesh tensors takes, once per process
#include <filesystem>
#include <fstream>
#include <string>

#include "training.h"
#include "tutti/tensor/registration.h"

namespace tutti::benchmarks {
namespace {

struct Start {
  double registration_ms, first_step_ms, peak_mb;
};

double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kb; word == "VmHWM:" && status >> kb) return kb / 1024;
  throw Error(ErrorCode::not_found, "/proc/self/status has no VmHWM");
}

// In the fresh process: measures and prints.
void start(const std::string& model, int devices) {
  const double registration = seconds_per_step([] { ensure_registered(); }, 1);
  const double first_step =
      seconds_per_step([&] { Training(model == "cnn" ? mnist_cnn() : mlp(), devices).step(); }, 1);
  std::cout << 1e3 * registration << ' ' << 1e3 * (registration + first_step) << ' ' << peak_mb() << '\n';
}

Start start_process(const std::string& model, int devices) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  FILE* output = popen(str("'", self, "' --start ", model, ' ', devices).c_str(), "r");
  Start result{};
  const bool read =
      output && fscanf(output, "%lf %lf %lf", &result.registration_ms, &result.first_step_ms, &result.peak_mb) == 3;
  if (!output || pclose(output) != 0 || !read) throw Error(ErrorCode::unavailable, "the process to measure failed");
  return result;
}

void FirstStep(benchmark::State& state, const std::string& model) {
  std::vector<double> more_mb, one_ms, first_step_ms, registration_ms;
  for (auto _ : state) {
    const Start one = start_process(model, 1);
    const Start eight = start_process(model, 8);
    more_mb.push_back(eight.peak_mb - one.peak_mb);
    one_ms.push_back(one.first_step_ms);
    first_step_ms.push_back(eight.first_step_ms);
    registration_ms.push_back(eight.registration_ms);
    state.SetIterationTime(1e-3 * eight.first_step_ms);
  }
  state.counters["more_MB"] = quantile(more_mb, 0.5);
  state.counters["first_step_ms"] = quantile(first_step_ms, 0.5);
  state.counters["one_device_ms"] = quantile(one_ms, 0.5);
  state.counters["registration_ms"] = quantile(registration_ms, 0.5);
}

BENCHMARK_CAPTURE(FirstStep, mlp, "mlp")->Iterations(15)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FirstStep, cnn, "cnn")->Iterations(15)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
  tutti::tune_allocator();
  if (argc == 4 && std::string(argv[1]) == "--start") return tutti::benchmarks::start(argv[2], std::stoi(argv[3])), 0;
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
