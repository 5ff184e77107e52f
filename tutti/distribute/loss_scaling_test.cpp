#include "tutti/distribute/loss_scaling.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LossScaling : public testing::Test {
 protected:
  template <class F, class... Args>
  std::vector<double> run(const F& f, const Args&... arguments) {
    return strategy.run([&](const auto&... own) { return f(own...).template item<double>(); }, arguments...).values();
  }

  const Watchdog watchdog{std::chrono::seconds(60)};
  MirroredStrategy strategy{{.devices = test_devices(2)}};
};

TEST_F(LossScaling, AverageDividesByTheGlobalBatch) {
  const auto shards = strategy.distribute(at::arange(1, 5, at::kDouble));
  EXPECT_THAT(run([](const Tensor& x) { return compute_average_loss(x); }, shards), ElementsAre(0.75, 1.75));
}

TEST_F(LossScaling, AverageIsExactForUnevenShardsWhenTheBatchSizeIsGiven) {
  const auto shards = strategy.distribute(at::arange(1, 4, at::kDouble));
  const auto parts = run([](const Tensor& x) { return compute_average_loss(x, {.global_batch_size = 3}); }, shards);
  EXPECT_THAT(parts, ElementsAre(1, 1));
}

TEST_F(LossScaling, AverageTakesWeightsAndCountsExamplesByTheirFirstAxis) {
  const auto loss = [] {
    return compute_average_loss(at::ones({2, 3}), {.sample_weight = at::full({2, 1}, 4), .global_batch_size = {}});
  };
  EXPECT_THAT(run(loss), ElementsAre(6, 6));
}

TEST_F(LossScaling, AverageOfAnEmptyBatchIsZero) {
  EXPECT_THAT(run([] { return compute_average_loss(at::empty({0})); }), ElementsAre(0, 0));
}

TEST_F(LossScaling, AverageRefusesAScalarANegativeBatchAndCrossReplicaContext) {
  EXPECT_THAT(error_of([&] { run([] { return compute_average_loss(at::ones({})); }); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { run([] { return compute_average_loss(at::ones({2}), {.global_batch_size = -1}); }); }),
              HasSubstr("invalid_argument"));
  const auto scope = strategy.scope();
  EXPECT_THAT(error_of([] { compute_average_loss(at::ones({2})); }), HasSubstr("failed_precondition"));
}

TEST_F(LossScaling, RegularizationIsDividedByTheReplicas) {
  EXPECT_THAT(run([] { return scale_regularization_loss(at::full({2}, 3)); }), ElementsAre(3, 3));
  EXPECT_THAT(run([] {
                return scale_regularization_loss({at::full({}, 3), at::full({2}, 1)});
              }),
              ElementsAre(2.5, 2.5));
  EXPECT_THAT(run([] { return scale_regularization_loss(std::vector<Tensor>()); }), ElementsAre(0, 0));
  EXPECT_EQ(scale_regularization_loss(at::full({}, 3)).item<float>(), 3);
  const auto scope = strategy.scope();
  EXPECT_THAT(error_of([] { scale_regularization_loss(std::vector<Tensor>()); }), HasSubstr("failed_precondition"));
}

}  // namespace
}  // namespace tutti
