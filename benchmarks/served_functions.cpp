// What handing functions to workers costs in a cluster: empty ones, a call whose result is waited for before the next
// one, and steps of an MLP (57,794 parameters, batch 64) by Keras's SGD on the servers; beside that, gradients of such
// an MLP of each worker's own, ten in a call: what the steps' computation alone allows. Then steps on 64 rows of a
// table of a million, of which workers have no copy, by Adagrad: Keras's, and LibTorch's.
//
//   OMP_NUM_THREADS=1 tutti launch --chief --workers 2 --ps 1 served_functions [ROUNDS [sockets]]
//
// The chief prints, over rounds: the median, and the 10 % and 90 % quantiles.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/tune_allocator.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::benchmarks {
namespace {

struct Mlp : torch::nn::Module {
  torch::nn::Linear hidden{nullptr}, out{nullptr};

  Mlp() {
    hidden = register_module("hidden", torch::nn::Linear(1200, 48));
    out = register_module("out", torch::nn::Linear(48, 2));
  }
  Tensor forward(const Tensor& x) { return out(at::relu(hidden(x))); }
};

constexpr int kGradientsOfCall = 10, kSteps = 200;

// Prints what `figure` makes of the seconds that `round` took.
void measure(const char* what, const char* unit, int rounds, const std::function<double(double seconds)>& figure,
             const std::function<void()>& round) {
  using Clock = std::chrono::steady_clock;
  round();
  std::vector<double> figures;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    round();
    figures.push_back(figure(std::chrono::duration<double>(Clock::now() - begin).count()));
  }
  std::ranges::sort(figures);
  const auto quantile = [&](double share) {
    return figures[static_cast<size_t>(share * static_cast<double>(figures.size() - 1))];
  };
  std::printf("%-22s %12.1f %s (10 %%: %.1f, 90 %%: %.1f)\n", what, quantile(0.5), unit, quantile(0.1), quantile(0.9));
  std::fflush(stdout);
}

std::function<double(double)> per_second(int count) {
  return [count](double seconds) { return count / seconds; };
}

template <class Schedule>
auto many(ClusterCoordinator& coordinator, int count, const Schedule& schedule) {
  return [&coordinator, count, schedule] {
    for (int i = 0; i < count; ++i) schedule();
    coordinator.join();
  };
}

void measure_functions(ParameterServerStrategy& strategy, int rounds) {
  const auto [net, optimizer] = strategy.build([] {
    auto made = std::make_shared<Mlp>();
    keras::optimizers::SGD sgd({.learning_rate = 0.01});
    sgd.build(made->parameters());
    return std::pair(made, sgd);
  });
  ClusterCoordinator coordinator(strategy);
  const auto nothing = coordinator.function("nothing", [] {});
  const auto add = coordinator.function("add", [](int64_t n) { return n + 1; });
  const auto batch = coordinator.create_per_worker_value([] { return at::rand({64, 1200}); });
  const auto step = coordinator.function("step", [&, &net = net, &optimizer = optimizer](Tensor& x) {
    strategy.run([&] {
      const auto weights = net->parameters();
      optimizer.apply_gradients(gradients(net->forward(x).square().mean(), weights), weights);
    });
  });
  const auto own = coordinator.create_per_worker_value([] { return std::make_shared<Mlp>(); });
  const auto compute = coordinator.function("compute", [&](std::shared_ptr<Mlp>& mlp, Tensor& x) {
    for (int i = 0; i < kGradientsOfCall; ++i)
      strategy.run([&] { gradients(mlp->forward(x).square().mean(), mlp->parameters()); });
  });
  coordinator.run([&] {
    constexpr int kEmpty = 20'000, kFetched = 500;
    measure("empty functions", "per s", rounds, per_second(kEmpty),
            many(coordinator, kEmpty, [&] { coordinator.schedule(nothing); }));
    int64_t sum = 0;
    measure(
        "schedule().fetch()", "us", rounds, [](double seconds) { return seconds / kFetched * 1e6; },
        many(coordinator, kFetched, [&] { sum = coordinator.schedule(add, sum).fetch(); }));
    measure("steps of an MLP", "per s", rounds, per_second(kSteps),
            many(coordinator, kSteps, [&] { coordinator.schedule(step, batch); }));
    measure("their computation", "per s", rounds, per_second(kSteps),
            many(coordinator, kSteps / kGradientsOfCall, [&] { coordinator.schedule(compute, own, batch); }));
  });
}

// In a run of its own: the chief looks at all variables, tables too, whenever functions begin.
void measure_rows(ParameterServerStrategy& strategy, int rounds) {
  const auto make_table = [] {
    return torch::nn::Embedding(torch::nn::EmbeddingOptions(1'000'000, 16)._weight(at::zeros({1'000'000, 16})));
  };
  const auto [table, optimizer] = strategy.build([&] {
    const auto made = make_table();
    keras::optimizers::Adagrad adagrad({.learning_rate = 0.01});
    adagrad.build(made->parameters());
    return std::pair(made->weight, adagrad);
  });
  const auto [torch_table, torch_optimizer] = strategy.build([&] {
    const auto made = make_table();
    return std::pair(made->weight, Optimizer(torch::optim::Adagrad(made->parameters(), 0.01)));
  });
  const auto loss = [](const Tensor& of, int64_t first) {
    const Tensor ids = (at::arange(first, first + 64) * 15'485'863).remainder(of.size(0));
    return at::embedding(of, ids).square().mean();
  };
  ClusterCoordinator coordinator(strategy);
  const auto step = coordinator.function("step", [&, &table = table, &optimizer = optimizer](int64_t first) {
    strategy.run([&] { optimizer.apply_gradients(gradients(loss(table, first), {table}), {table}); });
  });
  const auto torch_step =
      coordinator.function("LibTorch's step", [&, &table = torch_table, &optimizer = torch_optimizer](int64_t first) {
        strategy.run([&] {
          optimizer.zero_grad();
          loss(table, first).backward();
          optimizer.step();
        });
      });
  coordinator.run([&] {
    int64_t first = 0;
    measure("steps on 64 rows", "per s", rounds, per_second(kSteps),
            many(coordinator, kSteps, [&] { coordinator.schedule(step, first += 64); }));
    measure("the same, LibTorch's", "per s", rounds, per_second(kSteps),
            many(coordinator, kSteps, [&] { coordinator.schedule(torch_step, first += 64); }));
  });
}

void run(int rounds, bool shares_memory) {
  ParameterServerStrategy strategy(
      {.devices = configure_logical_cpus(1), .largest_copy_bytes = 16 << 20, .shares_memory = shares_memory});
  if (strategy.is_coordinator()) {
    std::printf("%d rounds, through %s\n", rounds, shares_memory ? "shared memory" : "sockets");
    std::fflush(stdout);
  }
  measure_functions(strategy, rounds);
  measure_rows(strategy, rounds);
}

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
  tutti::tune_allocator();
  tutti::benchmarks::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 11, argc <= 2);
}
