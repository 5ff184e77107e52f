// What served_test.py starts as chief, workers and servers: trains a small net with parameter servers, or without them
// where there is no cluster. The chief prints the losses of the steps, in their order, and what came of the run.
//   served_member [--steps N] [--checkpoints DIR] [--crash-before STEP FILE] [--crash-after STEP FILE]
//                 [--different TASK] [--renamed TASK] [--fail STEP] [--slow MS] [--writes] [--sparse]
//                 [--lost-after SECONDS] [--crash-server FILE] [--rows-alone] [--reads-table]
// A worker crashes once, in that step, before or after its gradients were pushed; FILE tells that it has. Server 1
// crashes once, when there is a checkpoint; STEP is then the number of all steps, and each tenth is saved.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <signal.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <thread>

#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/cluster/from_environment.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace {

using namespace tutti;

struct Options {
  int64_t steps = 20, crash_before = -1, crash_after = -1, fail = -1, slow_ms = 0, lost_after_s = 5;
  std::string crashed, checkpoints, different, renamed, crash_server;
  bool writes = false, sparse = false, rows_alone = false, reads_table = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&] { return std::string(argv[++i]); };
    if (name == "--steps") options.steps = std::stoll(next());
    if (name == "--fail") options.fail = std::stoll(next());
    if (name == "--lost-after") options.lost_after_s = std::stoll(next());
    if (name == "--slow") options.slow_ms = std::stoll(next());
    if (name == "--checkpoints") options.checkpoints = next();
    if (name == "--different") options.different = next();
    if (name == "--crash-server") options.crash_server = next();
    if (name == "--renamed") options.renamed = next();
    if (name == "--writes") options.writes = true;
    if (name == "--sparse") options.sparse = true;
    if (name == "--rows-alone") options.rows_alone = true;
    if (name == "--reads-table") options.reads_table = true;
    if (name == "--crash-before" || name == "--crash-after") {
      (name == "--crash-before" ? options.crash_before : options.crash_after) = std::stoll(next());
      options.crashed = next();
    }
  }
  return options;
}

constexpr int64_t kIds = 50;
constexpr int64_t kBytesOfOthers = 256;  // each of the variables that are no tables has fewer

struct Net : torch::nn::Module {
  torch::nn::Embedding table{nullptr};
  torch::nn::EmbeddingBag bag{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear out{nullptr};

  explicit Net(bool sparse) {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(kIds, 4).sparse(sparse)));
    bag = register_module("bag", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(kIds, 4).mode(torch::kMean)));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  Tensor forward(const Tensor& ids) { return out(norm(at::cat({table(ids.select(1, 0)), bag(ids)}, 1))); }
};

// Whose rows are few of all.
Tensor ids_of(int64_t step) { return (at::arange(24) * (7 * step + 3) % (kIds / 2)).view({8, 3}); }

void crash_once(const std::string& file) {
  if (std::filesystem::exists(file)) return;
  std::ofstream(file) << "crashed";
  kill(getpid(), SIGKILL);
}

// On a thread of its own.
bool has_checkpoint(const std::string& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with("ckpt-") && std::filesystem::exists(entry.path() / "index.json"))
      return true;
  return false;
}

void crash_with_checkpoint(const Options& options) {
  while (!has_checkpoint(options.checkpoints)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  crash_once(options.crash_server);
}

void train(ParameterServerStrategy& strategy, const Options& options, const std::string& task) {
  const auto [net, optimizer] = strategy.build([&] {
    auto made = std::make_shared<Net>(options.sparse);
    if (options.different == task) made->register_parameter("extra", at::ones({3}));
    keras::optimizers::Adam adam({.learning_rate = 0.01});
    adam.build(made->parameters());
    return std::pair(made, adam);
  });
  ClusterCoordinator coordinator(strategy, {.functions_under_way = 4});
  const auto seen = coordinator.create_per_worker_value([] { return int64_t{0}; });
  const auto step = coordinator.function(
      options.renamed == task ? "jump" : "step", [&, &net = net, &optimizer = optimizer](int64_t& own, int64_t number) {
        ++own;
        if (number == options.fail) throw Error(ErrorCode::data_loss, "a bad record");
        if (number == options.crash_before) crash_once(options.crashed);
        if (options.slow_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(options.slow_ms));
        const Tensor ids = ids_of(number);
        const auto losses = strategy.run([&] {
          const Tensor wanted = ids.to(at::kFloat).mean(1, /*keepdim=*/true) / kIds;
          Tensor loss = compute_average_loss((net->forward(ids) - wanted).square());
          if (options.reads_table) loss = loss + 0 * net->table->weight.norm();
          const auto weights = net->parameters();
          optimizer.apply_gradients(gradients(loss, weights), weights);
          return loss.detach();
        });
        if (options.writes) {
          const at::NoGradGuard no_grad;
          net->out->bias.add_(1);
        }
        if (number == options.crash_after) crash_once(options.crashed);
        return std::pair(strategy.reduce(ReduceOp::sum, losses), int64_t{current_worker_index()});
      });
  const auto evaluate = coordinator.function("evaluate", [&, &net = net](int64_t number) {
    const at::NoGradGuard no_grad;
    return net->forward(ids_of(number)).sum().item<double>();  // in global view
  });
  int64_t first = 0;
  std::optional<CheckpointManager> manager;
  if (!options.checkpoints.empty())
    manager.emplace(Checkpoint({{"net", *net}, {"optimizer", optimizer}, {"step", first}}), options.checkpoints);
  const int64_t made = coordinator.run([&] {
    if (manager) manager->restore_or_initialize();
    std::cout << std::setprecision(9);
    std::set<int64_t> workers;
    const auto make_steps = [&](int64_t count) {
      std::vector<RemoteValue<std::pair<Tensor, int64_t>>> steps;
      for (int64_t i = first; i < first + count; ++i) {
        steps.push_back(coordinator.schedule(step, seen, i));
        if (options.slow_ms > 0 && i == first + 1) std::cout << "has begun\n" << std::flush;
      }
      coordinator.join();
      for (const auto& [loss, worker] : coordinator.fetch(steps)) {
        std::cout << "loss " << loss.item<float>() << '\n' << std::flush;
        workers.insert(worker);
      }
      first += count;
      if (manager) manager->save();
    };
    if (options.crash_server.empty()) make_steps(options.steps);
    while (first < options.steps && !options.crash_server.empty()) make_steps(10);
    net->eval();
    const double here = net->forward(ids_of(1)).sum().item<double>();  // on the coordinator's own copies
    std::cout << "workers " << workers.size() << "\nsum " << here << "\nbatches "
              << net->norm->num_batches_tracked.item<int64_t>() << "\nmean "
              << net->norm->running_mean.sum().item<float>() << '\n';
    coordinator.schedule(evaluate, 1).fetch();
    return optimizer.iterations();
  });
  std::cout << task << " made " << made << " updates\n" << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto resolver = cluster::from_environment();
  const std::string task = resolver.task() ? to_string(*resolver.task()) : "chief 0";
  set_random_seed(3);
  try {
    const auto largest_copy = options.rows_alone ? std::optional<int64_t>(kBytesOfOthers) : std::nullopt;
    ParameterServerStrategy strategy({.variable_partitioner = FixedShardsPartitioner(3),
                                      .devices = configure_logical_cpus(1),
                                      .largest_copy_bytes = largest_copy,
                                      .connect_timeout = std::chrono::seconds(60),
                                      .lost_after = std::chrono::seconds(options.lost_after_s)});
    if (!options.crash_server.empty() && task == "ps 1") std::thread(crash_with_checkpoint, options).detach();
    train(strategy, options, task);
  } catch (const Error& error) {
    std::cerr << task << ": " << to_string(error.code()) << ": " << error.what() << '\n' << std::flush;
    return 3;
  }
  return 0;
}
