// What multi_worker_launch_test.py starts by `tutti launch`:
//   train DIR STEPS [die RANK STEP]  a loop with checkpoints every 5 steps in DIR; in the first attempt that rank kills
//                                    itself at that step. Prints "at step S" of each step and, in the end, the weights'
//                                    bits and the sum of losses of the last step.
//   die RANK                         that rank kills itself at a step; the others print what they are told
//   stop RANK                        the same of one that stops, which the deadline of 2 s finds
//   diverge                          rank 1 reduces where the others gather
//   throw                            rank 1 throws in a replica and ends
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include "tests/processes/by_environment.h"
#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/checkpoint/preemption.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/check_in_sync.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/multi_worker_mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace {

using namespace tutti;

bool is_first_attempt() {
  const char* restarts = std::getenv("TUTTI_RESTARTS");
  return !restarts || std::string(restarts) == "0";
}

uint64_t bits_of(const Tensor& tensor) {
  const Tensor values = tensor.detach().contiguous();
  uint64_t hash = 14695981039346656037u;
  const auto* bytes = static_cast<const uint8_t*>(values.const_data_ptr());
  for (size_t i = 0; i < values.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  return hash;
}

void step_with(MultiWorkerMirroredStrategy& strategy, const Tensor& w, const PerReplica<Tensor>& batch) {
  strategy.run(
      [&](const Tensor& x) {
        const Tensor noisy = x + at::randn(x.sizes()).mul_(0.1);  // the replicas' random numbers are saved too
        compute_average_loss((noisy.mm(w) - x.sum(1, true)).square()).backward();
      },
      batch);
  const at::NoGradGuard no_grad;
  Tensor(w).sub_(w.grad(), 0.05);
  Tensor(w).mutable_grad().reset();
}

int train(MultiWorkerMirroredStrategy& strategy, int argc, char** argv) {
  const std::string folder = argv[2];
  const int64_t steps = std::atoll(argv[3]);
  const bool dies = argc > 6 && is_first_attempt() && strategy.first_local_replica() == std::atoi(argv[5]);
  const int64_t last_step = dies ? std::atoll(argv[6]) : -1;
  set_random_seed(7);
  const Tensor w = strategy.build([] { return at::zeros({4, 1}).set_requires_grad(true); });
  const auto batches =
      strategy.distribute(data::from_tensor_slices(at::randn({32, 4})).shuffle(32, {.seed = 2}).repeat().batch(8));
  auto iterator = batches.begin();
  int64_t step = 0;
  CheckpointManager manager(Checkpoint({{"w", w}, {"data", iterator}, {"step", step}}), folder, {.async = true});
  PreemptionCheckpointHandler preemption(manager);
  for (; step < steps; ++step, ++iterator) {
    if (step % 5 == 0) manager.save();
    if (step == last_step) kill(getpid(), SIGKILL);
    preemption.run([&] {
      std::cout << "at step " << step << " pid " << getpid() << std::endl;
      step_with(strategy, w, *iterator);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
  }
  manager.wait();
  check_in_sync(w);
  std::cout << "ended with " << bits_of(gather(w)) << std::endl;
  return 0;
}

// Sums until something happens.
int sum(MultiWorkerMirroredStrategy& strategy, const std::string& action, int victim) {
  signal(SIGTERM, SIG_IGN);  // survivors say what they were told
  const int rank = strategy.first_local_replica();
  for (int i = 0;; ++i) {
    if (i == 50 && rank == victim && action == "die") kill(getpid(), SIGKILL);
    if (i == 50 && rank == victim && action == "stop") kill(getpid(), SIGSTOP);
    if (i == 50 && rank == victim && action == "throw") strategy.run([] { throw Error(ErrorCode::data_loss, "mine"); });
    const auto values = strategy.run([] { return at::ones({1}); });
    if (i == 50 && rank == victim && action == "diverge")
      strategy.reduce(ReduceOp::sum, values);
    else
      strategy.gather(values, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string action = argv[1];
  const auto start = [] { return std::chrono::steady_clock::now(); };
  auto begin = start();
  try {
    MultiWorkerMirroredStrategy strategy(
        {.devices = configure_logical_cpus(1),
         .communication_options = {.timeout = std::chrono::seconds(action == "stop" ? 2 : 20),
                                   .implementation = implementation_by_environment()}});
    begin = start();
    if (action == "train") return train(strategy, argc, argv);
    return sum(strategy, action, argc > 2 ? std::atoi(argv[2]) : 1);
  } catch (const Error& error) {
    const auto seconds = std::chrono::duration<double>(start() - begin).count();
    std::cerr << str("after ", seconds, " s ", to_string(error.code()), ": ", error.what(), '\n');  // in one piece
    return 1;
  }
}
