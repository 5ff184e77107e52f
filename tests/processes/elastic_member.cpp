// What elastic_test.py starts by `tutti launch --min`: elastic_member STEPS BY [die WORKER STEP PLACE]…
// A loop whose state tells which steps were taken: every step is counted, and its data are its own. BY is auto or ring.
// In a process that is no newcomer, that worker kills itself at that step: before or after the gradients are summed,
// while the loss is reduced, or stops ("stop"), or throws ("throw"). Prints "step S of N replicas" in the chief and, in
// the end, "ended: S steps, count C, sum of losses L, weights W".
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/check_in_sync.h"
#include "tutti/distribute/elastic.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace {

using namespace tutti;

constexpr int64_t kBatch = 12;  // of 1, 2 and 3 processes alike
// A process that is lost has time to come again before the others have taken all steps.
constexpr std::chrono::milliseconds kStep{30}, kStepWithoutAll{200};

struct Faults {
  int argc;
  char** argv;
  int worker;  // -1: none has these faults

  void at(int64_t step, const std::string& place) const {
    for (int i = 3; i + 3 < argc; i += 4) {
      const std::string kind = argv[i];
      if (std::atoi(argv[i + 1]) != worker || std::atoll(argv[i + 2]) != step || argv[i + 3] != place) continue;
      if (kind == "die") kill(getpid(), SIGKILL);
      if (kind == "stop") kill(getpid(), SIGSTOP);
      if (kind == "throw") throw Error(ErrorCode::data_loss, "mine");
    }
  }
};

int run(int argc, char** argv) {
  const int64_t steps = std::atoll(argv[1]);
  const bool by_ring = std::string(argv[2]) == "ring";
  set_random_seed(7);
  MultiWorkerMirroredStrategy strategy(
      {.devices = configure_logical_cpus(1),
       .communication_options = {
           .timeout = std::chrono::seconds(3),
           .implementation = by_ring ? CommunicationImplementation::ring : CommunicationImplementation::auto_}});
  const auto cluster = strategy.cluster();
  const int all = strategy.num_replicas_in_sync();
  const Faults faults{argc, argv, !cluster || cluster->is_newcomer() ? -1 : cluster->task().index};
  const auto [w, count, mean] = strategy.build([] {
    return std::tuple(at::zeros({4, 1}).set_requires_grad(true), at::zeros({1}), at::zeros({1}));
  });
  const Tensor weight = w;
  Tensor counter = count, running_mean = mean;
  int64_t step = 0;
  double losses = 0;
  Elastic elastic(
      strategy,
      Checkpoint({{"w", weight}, {"count", counter}, {"mean", running_mean}, {"step", step}, {"losses", losses}}),
      {.min_processes = 2, .wait_for_joiners = std::chrono::seconds(12)});
  elastic.run([&] {
    const auto data = data::from_tensor_slices(at::arange(48).view({48, 1}) * at::ones({1, 4}) / 48 - 0.5);
    const auto batches = strategy.distribute(data.repeat().batch(kBatch).skip(step));
    for (auto iterator = batches.begin(); step < steps; ++step, ++iterator) {
      elastic.commit();
      faults.at(step, "begin");
      const auto shares = strategy.run(
          [&](const Tensor& x) {
            const Tensor loss = compute_average_loss((x.mm(weight) - x.sum(1, true)).square());
            loss.backward();
            running_mean.add_(x.mean() * 0.1);
            return loss.detach();
          },
          *iterator);
      faults.at(step, "gradients");
      {
        const at::NoGradGuard no_grad;
        Tensor(weight).sub_(weight.grad(), 0.05);
        Tensor(weight).mutable_grad().reset();
        counter.add_(1);
      }
      faults.at(step, "loss");
      losses += strategy.reduce(ReduceOp::sum, shares).item<double>();
      if (strategy.is_chief())
        std::cout << "step " << step << " of " << strategy.num_replicas_in_sync() << " replicas" << std::endl;
      std::this_thread::sleep_for(strategy.num_replicas_in_sync() < all ? kStepWithoutAll : kStep);
    }
  });
  check_in_sync(weight);
  std::cout << "ended: " << step << " steps, count " << gather(counter).item<float>() << ", sum of losses " << losses
            << ", weights " << gather(weight).sum().item<double>() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << std::endl;
    return 1;
  }
}
