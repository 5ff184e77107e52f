// Recorded steps under autocast, whose losses a GradScaler scales, against the same without a recording.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <limits>

#include "tests/support/autocast.h"
#include "tests/support/error_of.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_devices.h"
#include "tests/support/test_graphs.h"
#include "tutti/distribute/grad_scaler.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

[[maybe_unused]] const bool kAsGraphs = test_graphs();

using ::testing::HasSubstr;

// What is trained in a dtype, by the replicas of a strategy.
struct MixedTraining {
  at::ScalarType dtype;
  MirroredStrategy strategy;
  torch::nn::Sequential net = strategy.build([] {
    torch::manual_seed(7);
    return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::Linear(8, 1));
  });
  torch::optim::SGD optimizer{net->parameters(), 0.05};
  GradScaler scaler{{.init_scale = 1024, .growth_interval = 2}};

  MixedTraining(at::ScalarType type, int replicas) : dtype(type), strategy({.devices = test_devices(replicas)}) {}

  // The forward and backward passes.
  Tensor pass(const PerReplica<Tensor>& batch) {
    optimizer.zero_grad();
    return strategy.reduce(ReduceOp::sum, strategy.run(
                                              [&](const Tensor& x) {
                                                Tensor loss;
                                                {
                                                  const Autocast mixed(test_torch_device().type(), dtype);
                                                  loss = net->forward(x).square().mean();
                                                }
                                                scaler.scale(loss).backward();
                                                return loss.detach();
                                              },
                                              batch));
  }
  bool update() {
    const bool was_taken = scaler.step(optimizer);
    scaler.update();
    return was_taken;
  }
};

class MixedPrecisionStep : public testing::TestWithParam<std::tuple<at::ScalarType, int>> {};

TEST_P(MixedPrecisionStep, ScalesByWhatTheScaleIsThen) {
  const auto [dtype, replicas] = GetParam();
  MixedTraining plain(dtype, replicas), own(dtype, replicas);
  const auto pass = function([&](const PerReplica<Tensor>& batch) { return own.pass(batch); });
  std::vector<double> scales;
  for (int i = 0; i < 10; ++i) {
    Tensor x = torch::randn({8, 6});
    if (i == 6) x[3][2] = std::numeric_limits<double>::infinity();
    const Tensor wanted = plain.pass(plain.strategy.distribute(x));
    EXPECT_TRUE(same_bits(pass(own.strategy.distribute(x)), wanted)) << "step " << i;
    EXPECT_EQ(plain.update(), i != 6);
    EXPECT_EQ(own.update(), i != 6);
    EXPECT_EQ(own.scaler.get_scale(), plain.scaler.get_scale());
    scales.push_back(own.scaler.get_scale());
    for (size_t p = 0; p < plain.net->parameters().size(); ++p)
      EXPECT_TRUE(same_bits(gather(own.net->parameters()[p].detach()), gather(plain.net->parameters()[p].detach())))
          << "step " << i << ", parameter " << p;
  }
  EXPECT_THAT(scales, testing::ElementsAre(1024, 2048, 2048, 4096, 4096, 8192, 4096, 4096, 8192, 8192));
  EXPECT_LE(pass.tracing_count(), 3);
}

TEST(MixedPrecisionStep, TheScalersOwnStepIsNoPartOfARecording) {
  MixedTraining training(at::kBFloat16, 1);
  const auto batch = training.strategy.distribute(torch::ones({8, 6}));
  const auto step = function([&](const PerReplica<Tensor>& each) {
    training.pass(each);
    training.update();
  });
  EXPECT_THAT(error_of([&] { step(batch); }), HasSubstr("GradScaler::step: reads numbers out of a tensor"));
  const auto update = function([&](const Tensor& x) {
    training.scaler.update();
    return x + 1;
  });
  training.pass(batch);
  training.scaler.step(training.optimizer);
  EXPECT_THAT(error_of([&] { update(torch::ones({1})); }), HasSubstr("GradScaler::update: reads numbers"));
}

// PyTorch's scaler multiplies by a tensor of float32.
TEST(MixedPrecisionStep, AScaledLossOf16BitsIsFloat32) {
  GradScaler scaler;
  const Tensor loss = torch::full({}, 4, torch::kHalf).requires_grad_();
  const Tensor scaled = scaler.scale(loss);
  EXPECT_EQ(scaled.scalar_type(), at::kFloat);
  EXPECT_EQ(scaled.item<double>(), 4 * 65536);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, MixedPrecisionStep,
                         testing::Combine(testing::Values(at::kBFloat16, at::kHalf), testing::Values(1, 2)));

}  // namespace
}  // namespace tutti
