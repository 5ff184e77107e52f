// What served_torch_test.py starts as chief, workers and servers: trains an unmodified module of LibTorch with
// LibTorch's optimizers on the servers, or without servers where there is no cluster. The chief prints the losses of
// the steps.
//   served_torch_member FOLDER [--meet | --rows-alone]
// With --rows-alone workers have no copies of tables. With --meet two workers share each step, and hand over their
// gradients once both have them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <thread>

#include "tutti/checkpoint/checkpoint.h"
#include "tutti/cluster/from_environment.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/tensor/random_seed.h"

namespace {

using namespace tutti;
namespace optim = torch::optim;

constexpr int64_t kIds = 20;

struct Net : torch::nn::Module {
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear out{nullptr}, sometimes{nullptr};

  explicit Net(bool sparse) {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(kIds, 3).sparse(sparse)));
    out = register_module("out", torch::nn::Linear(3, 1));
    sometimes = register_module("sometimes", torch::nn::Linear(3, 1));  // has a gradient in every second step
  }
  // Of each row.
  Tensor losses(int64_t step) {
    const Tensor ids = (at::arange(8) * (3 * step + 1)) % (kIds / 2);
    const Tensor rows = table(ids), wanted = ids.to(at::kFloat).unsqueeze(1) / kIds;
    const Tensor given = step % 2 == 0 ? out(rows) + sometimes(rows) : out(rows);
    return (given - wanted).square();
  }
};

struct Setting {
  std::string name;
  bool sparse = false, clips = false;
};

template <class Torch, class Options>
void train(ParameterServerStrategy& strategy, const std::filesystem::path& folder, const Setting& setting,
           const Options& options) {
  const auto [net, optimizer] = strategy.build([&] {
    auto made = std::make_shared<Net>(setting.sparse);
    return std::pair(made, Optimizer(Torch(made->parameters(), options)));
  });
  ClusterCoordinator coordinator(strategy);
  const auto step = coordinator.function("step", [&, &net = net, &optimizer = optimizer](int64_t number) {
    const auto losses = strategy.run([&] {
      optimizer.zero_grad();
      const Tensor loss = net->losses(number).mean();
      loss.backward();
      if (setting.clips) {
        optimizer.sum_gradients();
        torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1);
      }
      optimizer.step();
      return loss.detach();
    });
    return strategy.reduce(ReduceOp::sum, losses).template item<double>();
  });
  coordinator.run([&, &net = net, &optimizer = optimizer] {
    const auto make_steps = [&](int64_t first, int64_t end) {
      std::vector<RemoteValue<double>> steps;
      for (int64_t i = first; i < end; ++i) steps.push_back(coordinator.schedule(step, i));
      coordinator.join();
      for (const double loss : coordinator.fetch(steps)) std::cout << setting.name << " loss " << loss << '\n';
    };
    make_steps(0, 7);
    const Checkpoint checkpoint({{"net", *net}, {"optimizer", optimizer}});
    checkpoint.write(folder / setting.name);
    make_steps(7, 10);
    for (auto& group : optimizer.get().param_groups()) group.options().set_lr(group.options().get_lr() / 2);
    make_steps(10, 13);
    checkpoint.restore(folder / setting.name).assert_consumed();
    make_steps(7, 10);
  });
}

void train_with_each(ParameterServerStrategy& strategy, const std::filesystem::path& folder) {
  using namespace torch::optim;
  train<SGD>(strategy, folder, {.name = "sgd"}, SGDOptions(0.1));
  train<SGD>(strategy, folder, {.name = "sparse", .sparse = true}, SGDOptions(0.1));
  train<SGD>(strategy, folder, {.name = "momentum"}, SGDOptions(0.05).momentum(0.9).dampening(0.3).weight_decay(0.01));
  train<SGD>(strategy, folder, {.name = "nesterov", .clips = true}, SGDOptions(0.05).momentum(0.9).nesterov(true));
  train<Adam>(strategy, folder, {.name = "adam"}, AdamOptions(0.02).weight_decay(0.01));
  train<Adam>(strategy, folder, {.name = "amsgrad"}, AdamOptions(0.02).amsgrad(true));
  train<AdamW>(strategy, folder, {.name = "adamw"}, AdamWOptions(0.02));
  train<Adagrad>(strategy, folder, {.name = "adagrad"},
                 AdagradOptions(0.1).lr_decay(0.01).initial_accumulator_value(0.1));
  train<RMSprop>(strategy, folder, {.name = "rmsprop"}, RMSpropOptions(0.01).momentum(0.5).centered(true));
}

// Optimizers that servers refuse, by what they say.
void refuse(ParameterServerStrategy& strategy) {
  try {
    strategy.build([&] {
      const auto made = std::make_shared<Net>(false);
      return Optimizer(optim::LBFGS(made->parameters()));
    });
  } catch (const Error& error) {
    std::cout << to_string(error.code()) << ": " << error.what() << '\n';
  }
}

// Workers compute on their halves of a batch, and wait for each other before any hands over its gradients.
void meet(ParameterServerStrategy& strategy, const std::filesystem::path& folder, int64_t parts) {
  const auto [net, optimizer] = strategy.build([&] {
    auto made = std::make_shared<Net>(false);
    return std::pair(made, Optimizer(optim::SGD(made->parameters(), 0.1)));
  });
  ClusterCoordinator coordinator(strategy, {.functions_under_way = 1});
  const auto mark = [&](int64_t step, int64_t part) { return folder / str(step, '_', part); };
  const auto step = coordinator.function("step", [&, &net = net, &optimizer = optimizer](int64_t number, int64_t part) {
    const auto losses = strategy.run([&] {
      optimizer.zero_grad();
      const Tensor loss = net->losses(number).chunk(parts)[static_cast<size_t>(part)].sum() / 8;
      loss.backward();
      std::ofstream(mark(number, part)) << "has its gradients";
      while (!std::filesystem::exists(mark(number, parts - 1 - part)))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      optimizer.step();
      return loss.detach();
    });
    return strategy.reduce(ReduceOp::sum, losses).item<double>();
  });
  coordinator.run([&] {
    for (int64_t i = 0; i < 10; ++i) {
      std::vector<RemoteValue<double>> losses;
      for (int64_t part = 0; part < parts; ++part) losses.push_back(coordinator.schedule(step, i, part));
      coordinator.join();
      double sum = 0;
      for (const double loss : coordinator.fetch(losses)) sum += loss;
      std::cout << "loss " << sum << '\n';
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argv[1];
  const std::string option = argc > 2 ? argv[2] : "";
  const bool meets = option == "--meet";
  const auto largest_copy = option == "--rows-alone" ? std::optional<int64_t>(kIds * 3) : std::nullopt;
  set_random_seed(3);
  std::cout << std::setprecision(9);
  try {
    ParameterServerStrategy strategy({.variable_partitioner = FixedShardsPartitioner(3),
                                      .devices = configure_logical_cpus(1),
                                      .largest_copy_bytes = largest_copy,
                                      .connect_timeout = std::chrono::seconds(60),
                                      .lost_after = std::chrono::seconds(20)});
    if (meets) {
      meet(strategy, folder, strategy.num_workers());
    } else {
      refuse(strategy);
      train_with_each(strategy, folder);
    }
  } catch (const Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << '\n' << std::flush;
    return 3;
  }
  std::cout << std::flush;
  return 0;
}
