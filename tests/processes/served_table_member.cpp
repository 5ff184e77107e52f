// What served_table_test.py starts as chief, workers and servers, or alone: trains on a table, most of whose rows no
// step looks up. The chief prints the losses of the steps, and every task how many bytes of memory it had at most.
//   served_table_member ROWS STEPS DEVICES
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <fstream>
#include <iomanip>
#include <iostream>

#include "tutti/cluster/from_environment.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/tensor/random_seed.h"

namespace {

using namespace tutti;

constexpr int64_t kWidth = 64;

// Of this process, since it began.
int64_t most_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return -1;
}

struct Net : torch::nn::Module {
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear out{nullptr};

  explicit Net(int64_t rows) {
    table = register_module("table", torch::nn::Embedding(rows, kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, 1));
  }
  Tensor forward(const Tensor& ids) { return out(at::dropout(table(ids), 0.2, is_training())); }
};

// Of a replica.
Tensor losses_of(Net& net, int64_t rows, int64_t step, int replica) {
  const Tensor ids = at::arange(replica, replica + 32) * (7919 * step + 104729) % rows;
  return (net.forward(ids) - ids.unsqueeze(1).to(at::kFloat) / rows).square();
}

void train(ParameterServerStrategy& strategy, int64_t rows, int64_t steps) {
  const auto [net, optimizer] = strategy.build([&] {
    auto made = std::make_shared<Net>(rows);
    keras::optimizers::Adagrad adagrad({.learning_rate = 0.1});
    adagrad.build(made->parameters());
    return std::pair(made, adagrad);
  });
  ClusterCoordinator coordinator(strategy);
  const auto step = coordinator.function("step", [&, &net = net, &optimizer = optimizer](int64_t number) {
    const auto losses = strategy.run([&] {
      const int replica = get_replica_context().replica_id_in_sync_group();
      const Tensor loss = compute_average_loss(losses_of(*net, rows, number, replica));
      const auto weights = net->parameters();
      optimizer.apply_gradients(gradients(loss, weights), weights);
      return loss.detach();
    });
    return strategy.reduce(ReduceOp::sum, losses);
  });
  coordinator.run([&] {
    std::vector<RemoteValue<Tensor>> all;
    for (int64_t i = 0; i < steps; ++i) all.push_back(coordinator.schedule(step, i));
    coordinator.join();
    for (const Tensor& loss : coordinator.fetch(all))
      std::cout << std::setprecision(9) << "loss " << loss.item<float>() << '\n';
  });
}

}  // namespace

int main(int, char** argv) {
  const int64_t rows = std::stoll(argv[1]), steps = std::stoll(argv[2]);
  const int devices = std::stoi(argv[3]);
  const auto task = cluster::from_environment().task();
  set_random_seed(3);
  try {
    ParameterServerStrategy strategy({.variable_partitioner = FixedShardsPartitioner(3),
                                      .devices = configure_logical_cpus(devices),
                                      .largest_copy_bytes = 1 << 20,
                                      .connect_timeout = std::chrono::seconds(60)});
    train(strategy, rows, steps);
  } catch (const Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << '\n' << std::flush;
    return 3;
  }
  std::cout << (task ? to_string(*task) : "alone") << " had " << most_bytes() << " bytes of a table of "
            << rows * kWidth * static_cast<int64_t>(sizeof(float)) << '\n'
            << std::flush;
  return 0;
}
