// One SGD step through Strategy::run (backward() in it, optimizer.step() outside), over the step of the same model in a
// plain LibTorch loop: what replicas cost, or gain.
//
//   ./dev bench replica_step
//   ./dev bench replica_step --benchmark_filter=Cnn
//
// The global batch is 64, divided among the replicas. The plain loop uses one core or all, whichever is faster
// (raw_threads); replicas use one each where there are several. Read `ratio`: below 1, Tutti is faster.
#include "training.h"

namespace tutti::benchmarks {
namespace {

void measure(benchmark::State& state, const Task& task, int steps) {
  Training raw(task);
  Training ours(task, static_cast<int>(state.range(0)));
  state.counters["raw_threads"] = use_best_thread_count([&] { raw.step(); }, steps);
  compare(
      state, steps, [&] { raw.step(); }, [&] { ours.step(); });
}

void Cnn(benchmark::State& state) { measure(state, mnist_cnn(), 3); }
void Mlp(benchmark::State& state) { measure(state, mlp(), 50); }

BENCHMARK(Cnn)->ArgName("replicas")->Arg(1)->Arg(2)->Arg(8)->Iterations(31)->UseManualTime();
BENCHMARK(Mlp)->ArgName("replicas")->Arg(1)->Arg(2)->Arg(8)->Iterations(31)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
