// One seed and one global batch, divided among 1, 2, 4 and 8 replicas: the same training, and the same run twice is the
// same bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/intra_op_threads.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::equivalence {
namespace {

namespace nn = torch::nn;

constexpr int kStepsOfRun = 50;
constexpr int64_t kBatch = 64;
constexpr int64_t kClasses = 10;

nn::Sequential cnn() {
  return nn::Sequential(nn::Conv2d(1, 4, 3), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(4 * 5 * 5, kClasses));
}

nn::Sequential mlp() {
  return nn::Sequential(nn::Flatten(), nn::Linear(12 * 12, 32), nn::ReLU(), nn::Linear(32, kClasses));
}

nn::Sequential mlp_with_dropout() {
  return nn::Sequential(nn::Flatten(), nn::Linear(12 * 12, 32), nn::Dropout(0.5), nn::Linear(32, kClasses));
}

enum class Stepping { inside_run, outside_run };

struct Training {
  std::vector<double> losses;
  std::vector<Tensor> weights;
};

Training train(nn::Sequential (*make)(), int replicas, Stepping stepping) {
  set_random_seed(3);
  MirroredStrategy strategy({.devices = test_devices(replicas)});
  auto model = strategy.build(make);
  Optimizer optimizer(torch::optim::Adam(model->parameters(), 1e-3));
  auto draw = at::make_generator<at::CPUGeneratorImpl>(11);
  Training training;
  for (int step = 0; step < kStepsOfRun; ++step) {
    const Tensor images = torch::randn({kBatch, 1, 12, 12}, draw);
    const Tensor labels = torch::randint(0, kClasses, {kBatch}, draw, torch::kLong);
    const auto losses = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          optimizer.zero_grad();
          const auto options = nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
          const Tensor loss = nn::functional::cross_entropy(model->forward(x), y, options) / kBatch;
          loss.backward();
          if (stepping == Stepping::inside_run) optimizer.step();
          return loss.detach();
        },
        strategy.distribute(std::tuple(images, labels)));
    if (stepping == Stepping::outside_run) optimizer.step();
    training.losses.push_back(strategy.reduce(ReduceOp::sum, losses).item<double>());
  }
  for (const Tensor& parameter : model->parameters()) training.weights.push_back(gather(parameter.detach()).clone());
  return training;
}

void expect_same_training(nn::Sequential (*make)(), Stepping stepping) {
  const Training one = train(make, 1, stepping);
  ASSERT_LT(one.losses.back(), one.losses.front());
  for (const int replicas : {2, 4, 8}) {
    SCOPED_TRACE(std::to_string(replicas) + " replicas");
    const Training many = train(make, replicas, stepping);
    for (size_t step = 0; step < kStepsOfRun; ++step) EXPECT_NEAR(many.losses[step], one.losses[step], 1e-5) << step;
    for (size_t i = 0; i < one.weights.size(); ++i)
      EXPECT_LT((many.weights[i] - one.weights[i]).abs().max().item<double>(), 1e-4) << "weight " << i;
  }
}

void expect_repeatable(nn::Sequential (*make)(), Stepping stepping) {
  for (const int replicas : {1, 2, 4, 8}) {
    SCOPED_TRACE(std::to_string(replicas) + " replicas");
    const Training first = train(make, replicas, stepping), second = train(make, replicas, stepping);
    EXPECT_EQ(first.losses, second.losses);
    for (size_t i = 0; i < first.weights.size(); ++i)
      EXPECT_TRUE(torch::equal(first.weights[i], second.weights[i])) << "weight " << i;
  }
}

class ReplicaCounts : public testing::Test {
 private:
  const Watchdog watchdog_{std::chrono::seconds(240)};
  // OpenMP's threads spin where they meet: beside a busy neighbour one replica would take a hundred times as long.
  const IntraOpThreads one_thread_{1};
};

TEST_F(ReplicaCounts, LeaveTheTrainingOfACnnAsItIs) { expect_same_training(cnn, Stepping::inside_run); }
TEST_F(ReplicaCounts, LeaveTheTrainingOfAnMlpAsItIs) { expect_same_training(mlp, Stepping::inside_run); }
TEST_F(ReplicaCounts, LeaveTrainingThatStepsOutsideRunAsItIs) { expect_same_training(cnn, Stepping::outside_run); }

TEST_F(ReplicaCounts, ARunTwiceIsTheSameBitForBit) { expect_repeatable(cnn, Stepping::inside_run); }
TEST_F(ReplicaCounts, ARunTwiceIsTheSameBitForBitSteppingOutsideRun) { expect_repeatable(mlp, Stepping::outside_run); }
TEST_F(ReplicaCounts, ARunTwiceIsTheSameBitForBitWithDropout) {
  expect_repeatable(mlp_with_dropout, Stepping::inside_run);
}

TEST_F(ReplicaCounts, DropoutDrawsInEveryStep) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  auto dropout = strategy.build([] { return nn::Dropout(0.5); });
  const auto masks = [&] { return strategy.run([&] { return dropout(torch::ones({64})); }); };
  const auto first = masks(), second = masks();
  EXPECT_FALSE(torch::equal(first[0].cpu(), first[1].cpu()));
  EXPECT_FALSE(torch::equal(first[0].cpu(), second[0].cpu()));
}

}  // namespace
}  // namespace tutti::equivalence
