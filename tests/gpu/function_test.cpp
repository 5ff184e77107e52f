// Recorded functions on a GPU: a replay gives what the calls give, and draws other numbers each time.
#include "gpu_test.h"
#include "tutti/function/memory_watch.h"

namespace tutti::gpu {
namespace {

namespace nn = torch::nn;

class Functions : public GpuTest {
 protected:
  void SetUp() override {
    if (!memory_can_be_watched()) GTEST_SKIP() << "functions are recorded with LibTorch 2.13 or later";
    GpuTest::SetUp();
  }
};

TEST_F(Functions, ReplayWhatTheyRecorded) {
  const auto f = function([](const Tensor& x) { return (x.mm(x.t()) * 0.25).relu().sum(1) + x.exp().mean(); });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = torch::randn({6, 6}, on_gpu());
    expect_near(f(x), (x.mm(x.t()) * 0.25).relu().sum(1) + x.exp().mean(), 1e-6, str("call ", i));
  }
  EXPECT_LE(f.tracing_count(), 2);
}

TEST_F(Functions, TrainAsPlainStepsDo) {
  const auto make = [] {
    torch::manual_seed(7);
    nn::Sequential net(nn::Linear(10, 16), nn::ReLU(), nn::Linear(16, 3));
    net->to(gpu_device(0));
    return net;
  };
  auto plain = make(), recorded = make();
  torch::optim::Adam adam(plain->parameters(), 1e-2), own(recorded->parameters(), 1e-2);
  const auto step = [](nn::Sequential& net, torch::optim::Optimizer& optimizer, const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  const auto fast = function([&](const Tensor& x, const Tensor& y) { return step(recorded, own, x, y); });
  for (int i = 0; i < 20; ++i) {
    const Tensor x = torch::randn({8, 10}, on_gpu()), y = torch::randint(3, {8}, on_gpu().dtype(torch::kLong));
    expect_near(fast(x, y), step(plain, adam, x, y), 1e-6, str("loss of step ", i));
  }
  for (size_t i = 0; i < plain->parameters().size(); ++i)
    expect_near(recorded->parameters()[i], plain->parameters()[i], 1e-5, str("weight ", i));
}

TEST_F(Functions, TrainOnReplicas) {
  const auto losses = [](bool records) {
    MirroredStrategy strategy({.devices = parts(2)});
    torch::manual_seed(7);
    auto net = strategy.build([] { return nn::Sequential(nn::Linear(10, 16), nn::ReLU(), nn::Linear(16, 3)); });
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto step = [&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
      optimizer.zero_grad();
      const auto each = strategy.run(
          [&](const Tensor& x, const Tensor& y) {
            const Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
            loss.backward();
            return loss.detach();
          },
          batch);
      optimizer.step();
      return strategy.reduce(ReduceOp::mean, each);
    };
    const auto fast = function(step);
    std::vector<double> all;
    torch::manual_seed(11);
    for (int i = 0; i < 6; ++i) {
      const auto batch = strategy.distribute(std::tuple(torch::randn({8, 10}), torch::randint(3, {8}, torch::kLong)));
      all.push_back((records ? fast(batch) : step(batch)).template item<double>());
    }
    return all;
  };
  const auto wanted = losses(false), seen = losses(true);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(seen[i], wanted[i], 1e-5) << "step " << i;
}

TEST_F(Functions, DrawOtherNumbersEachTime) {
  const auto f = function([] { return torch::rand({8}, on_gpu()); });
  torch::manual_seed(3);
  std::vector<Tensor> seen;
  for (int i = 0; i < 4; ++i) seen.push_back(f().clone());
  torch::manual_seed(3);
  for (int i = 0; i < 4; ++i) expect_bits(seen[static_cast<size_t>(i)], torch::rand({8}, on_gpu()), str("draw ", i));
}

}  // namespace
}  // namespace tutti::gpu
