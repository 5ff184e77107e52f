#include "tutti/distribute/grad_scaler.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <limits>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_devices.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Tensor loss_of(torch::nn::Linear& net, const Tensor& x) { return net->forward(x).square().mean(); }

// Weights after some steps, scaled by a power of two or not.
std::vector<Tensor> trained(int replicas, bool scaled) {
  torch::manual_seed(3);
  MirroredStrategy strategy({.devices = test_devices(replicas)});
  auto net = strategy.build([] { return torch::nn::Linear(4, 3); });
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  GradScaler scaler({.enabled = scaled});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = torch::randn({6, 4});
    optimizer.zero_grad();
    strategy.run([&](const Tensor& own) { scaler.scale(loss_of(net, own)).backward(); }, strategy.distribute(x));
    EXPECT_TRUE(scaler.step(optimizer));
    scaler.update();
  }
  return {gather(net->weight.detach()), gather(net->bias.detach())};
}

TEST(GradScaler, ChangesNothingWhereAllIsFinite) {
  for (const int replicas : {1, 2}) {
    const auto seen = trained(replicas, true), wanted = trained(replicas, false);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(torch::equal(seen[i], wanted[i]));
  }
}

// A parameter whose gradient is what the test says, in one replica of two.
struct Chosen {
  MirroredStrategy strategy{{.devices = test_devices(2)}};
  Tensor w = strategy.build([] { return torch::ones({2}).requires_grad_(); });
  torch::optim::SGD optimizer{{w}, 1.0};

  bool step(GradScaler& scaler, double gradient_of_second) {
    optimizer.zero_grad();
    strategy.run([&] {
      const bool is_second = get_replica_context().replica_id_in_sync_group() == 1;
      scaler.scale((w * (is_second ? gradient_of_second : 1.0)).sum()).backward();
    });
    const bool was_taken = scaler.step(optimizer);
    scaler.update();
    return was_taken;
  }
};

TEST(GradScaler, LeavesAStepOutForAllIfOneReplicasGradientIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan(""), 1e38}) {
    Chosen chosen;
    GradScaler scaler({.init_scale = 1024});
    EXPECT_FALSE(chosen.step(scaler, bad));
    EXPECT_TRUE(torch::equal(gather(chosen.w.detach()), torch::ones({2})));
    EXPECT_EQ(scaler.get_scale(), 512);
    EXPECT_TRUE(chosen.step(scaler, 1));
    EXPECT_TRUE(torch::equal(gather(chosen.w.detach()), torch::full({2}, -1.0)));
  }
}

TEST(GradScaler, GrowsAfterAsManyStepsInARow) {
  Chosen chosen;
  GradScaler scaler({.init_scale = 8, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 3});
  std::vector<double> scales;
  for (const double gradient : {1.0, 1.0, std::nan(""), 1.0, 1.0, 1.0, 1.0}) {
    chosen.step(scaler, gradient);
    scales.push_back(scaler.get_scale());
  }
  EXPECT_THAT(scales, testing::ElementsAre(8, 8, 2, 2, 2, 8, 8));
}

TEST(GradScaler, DividesBeforeTheStepForThoseWhoClip) {
  Chosen chosen;
  GradScaler scaler({.init_scale = 256});
  chosen.strategy.run([&] { scaler.scale((chosen.w * 3).sum()).backward(); });
  scaler.unscale_(chosen.optimizer);
  EXPECT_TRUE(torch::equal(gather(chosen.w.grad()), torch::full({2}, 6.0)));
  EXPECT_TRUE(scaler.step(chosen.optimizer));
  EXPECT_TRUE(torch::equal(gather(chosen.w.detach()), torch::full({2}, -5.0)));
}

TEST(GradScaler, SumsOverSeveralOptimizers) {
  Chosen good, bad;
  GradScaler scaler({.init_scale = 4});
  good.strategy.run([&] { scaler.scale(good.w.sum()).backward(); });
  bad.strategy.run([&] { scaler.scale((bad.w * std::nan("")).sum()).backward(); });
  EXPECT_TRUE(scaler.step(good.optimizer));
  EXPECT_FALSE(scaler.step(bad.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 2);
}

TEST(GradScaler, SparseGradientsAreDividedToo) {
  const Tensor table = torch::ones({5, 2}).requires_grad_();
  torch::optim::SGD optimizer({table}, 1.0);
  GradScaler scaler({.init_scale = 16});
  scaler.scale(torch::embedding(table, moved(torch::tensor({1, 3, 1})), -1, false, /*sparse=*/true).sum()).backward();
  scaler.unscale_(optimizer);
  EXPECT_TRUE(
      torch::equal(table.grad().to_dense().select(1, 0), moved(torch::tensor({0., 2., 0., 1., 0.}, torch::kFloat))));
}

TEST(GradScaler, SparseGradientsOfReplicasAreDividedToo) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const Tensor table = strategy.build([] { return torch::ones({5, 2}).requires_grad_(); });
  torch::optim::SGD optimizer({table}, 1.0);
  GradScaler scaler({.init_scale = 16});
  const auto step = [&](double factor) {
    optimizer.zero_grad();
    strategy.run([&] {
      const Tensor rows = torch::embedding(table, moved(torch::tensor({1, 3, 1})), -1, false, /*sparse=*/true);
      scaler.scale(rows.sum() * factor).backward();
    });
    const bool was_taken = scaler.step(optimizer);
    scaler.update();
    return was_taken;
  };
  EXPECT_FALSE(step(INFINITY));
  EXPECT_TRUE(step(1));
  EXPECT_TRUE(
      torch::equal(gather(table.detach()).select(1, 0), moved(torch::tensor({1., -3., 1., -1., 1.}, torch::kFloat))));
}

TEST(GradScaler, SaysWhatIsCalledWrongly) {
  Chosen chosen;
  GradScaler scaler;
  EXPECT_THAT(error_of([&] { scaler.update(); }), AllOf(HasSubstr("failed_precondition"), HasSubstr("no step")));
  scaler.unscale_(chosen.optimizer);
  EXPECT_THAT(error_of([&] { scaler.unscale_(chosen.optimizer); }), HasSubstr("since the last update()"));
  scaler.step(chosen.optimizer);
  EXPECT_THAT(error_of([&] { scaler.step(chosen.optimizer); }), HasSubstr("a second step"));
  EXPECT_THAT(error_of([&] { chosen.strategy.run([&] { scaler.step(chosen.optimizer); }); }),
              AllOf(HasSubstr("GradScaler::step"), HasSubstr("outside of run")));
  EXPECT_THAT(error_of([] { GradScaler({.init_scale = 0}); }), HasSubstr("init_scale must be more than 0, not 0"));
  EXPECT_THAT(error_of([] { GradScaler({.backoff_factor = 1}); }), HasSubstr("backoff_factor must be between 0 and 1"));
}

TEST(GradScaler, IsKeptInCheckpoints) {
  const TemporaryFolder folder;
  Chosen chosen;
  GradScaler scaler({.init_scale = 8, .growth_interval = 2}), other({.growth_interval = 2});
  chosen.step(scaler, std::nan(""));
  chosen.step(scaler, 1);
  Checkpoint({{"scaler", scaler}}).write(folder.path() / "saved");
  Checkpoint({{"scaler", other}}).restore(folder.path() / "saved").assert_consumed();
  EXPECT_EQ(other.get_scale(), 4);
  chosen.step(other, 1);
  EXPECT_EQ(other.get_scale(), 8) << "the second step in a row";
}

}  // namespace
}  // namespace tutti
