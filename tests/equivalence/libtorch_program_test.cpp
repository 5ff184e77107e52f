// The loop of examples/libtorch_module.cpp beside the program that it came from: the same losses.
#include <gtest/gtest.h>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/intra_op_threads.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::equivalence {
namespace {

namespace nn = torch::nn;
using Example = torch::data::Example<>;

constexpr int kReplicas = 4;

struct Net : nn::Module {
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};  // may stay empty
  nn::Linear out{nullptr};

  explicit Net(bool normalized) {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(1, 16, 3)));
    if (normalized) norm = register_module("norm", nn::BatchNorm2d(16));
    out = register_module("out", nn::Linear(16 * 13 * 13, 10));
  }
  Tensor forward(Tensor x) {
    x = conv(x);
    if (norm) x = norm(x);
    return out(torch::max_pool2d(torch::relu(x), 2).flatten(1));
  }
};

struct Stripes : torch::data::datasets::Dataset<Stripes> {
  Example get(size_t index) override {
    const auto label = static_cast<int64_t>(index % 10);
    const double angle = 0.314 * static_cast<double>(label);
    const Tensor line = torch::linspace(0, 6, 28);
    const Tensor image = torch::sin(std::cos(angle) * line.unsqueeze(0) + std::sin(angle) * line.unsqueeze(1));
    return {image.unsqueeze(0), torch::tensor(label)};
  }
  std::optional<size_t> size() const override { return 240; }  // 3 batches of 64 and a short one, which 4 divide
};

auto make_loader() { return torch::data::make_data_loader(Stripes().map(torch::data::transforms::Stack<>()), 64); }

Tensor loss_of(Net& net, const Tensor& images, const Tensor& labels) {
  return nn::functional::cross_entropy(net.forward(images), labels);
}

std::vector<double> train_with_replicas(bool normalized) {
  set_random_seed(5);
  MirroredStrategy strategy({.devices = test_devices(kReplicas)});
  auto net = strategy.build([&] { return std::make_shared<Net>(normalized); }, {.gradients = ReduceOp::mean});
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  auto loader = make_loader();
  std::vector<double> history;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const auto& batch : strategy.distribute(*loader)) {
      optimizer.zero_grad();
      const auto losses = strategy.run(
          [&](const Example& examples) {
            const Tensor loss = loss_of(*net, examples.data, examples.target);
            loss.backward();
            return loss.detach();
          },
          batch);
      nn::utils::clip_grad_norm_(net->parameters(), 1.0);
      optimizer.step();
      history.push_back(strategy.reduce(ReduceOp::mean, losses).item<double>());
    }
  return history;
}

// The program without Tutti. Its batch is normalized in `shards` parts, each by its own statistics, as replicas do.
std::vector<double> train_on_one_device(bool normalized, int64_t shards) {
  set_random_seed(5);
  Net net(normalized);
  torch::optim::Adam optimizer(net.parameters(), 1e-3);
  auto loader = make_loader();
  std::vector<double> history;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const Example& batch : *loader) {
      optimizer.zero_grad();
      const auto images = batch.data.chunk(shards), labels = batch.target.chunk(shards);
      Tensor loss = torch::zeros({});
      for (size_t i = 0; i < images.size(); ++i) loss = loss + loss_of(net, images[i], labels[i]);
      loss = loss / shards;
      loss.backward();
      nn::utils::clip_grad_norm_(net.parameters(), 1.0);
      optimizer.step();
      history.push_back(loss.item<double>());
    }
  return history;
}

void expect_same_losses(const std::vector<double>& replicas, const std::vector<double>& one_device) {
  ASSERT_EQ(replicas.size(), 12U);
  ASSERT_EQ(one_device.size(), 12U);
  EXPECT_LT(one_device.back(), 0.7 * one_device.front());
  for (size_t step = 0; step < replicas.size(); ++step) EXPECT_NEAR(replicas[step], one_device[step], 1e-5) << step;
}

class LibtorchProgram : public testing::Test {
  const Watchdog watchdog_{std::chrono::seconds(120)};
  const IntraOpThreads one_thread_{1};  // beside a busy neighbour OpenMP's threads would spin
};

TEST_F(LibtorchProgram, WithoutBatchNormHasTheLossesOfTheProgramOnOneDevice) {
  expect_same_losses(train_with_replicas(false), train_on_one_device(false, 1));
}

TEST_F(LibtorchProgram, WithBatchNormHasTheLossesOfBatchesNormalizedInParts) {
  expect_same_losses(train_with_replicas(true), train_on_one_device(true, kReplicas));
}

}  // namespace
}  // namespace tutti::equivalence
