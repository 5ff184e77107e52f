#include "tutti/keras/losses/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_squared_error.h"

namespace tutti::keras::losses {
namespace {

using ::testing::HasSubstr;

// Values 4, 1, 16 for three samples.
Tensor labels() { return at::tensor({1.0, 2.0, 3.0}).view({3, 1}); }
Tensor predictions() { return at::tensor({3.0, 1.0, -1.0}).view({3, 1}); }
Tensor weights() { return at::tensor({0.5, 2.0, 0.25}); }

double reduced(Reduction reduction, const Tensor& weight = {}) {
  return MeanSquaredError({.reduction = reduction})(labels(), predictions(), weight).item<double>();
}

TEST(Loss, ReducesAsItIsTold) {
  EXPECT_NEAR(reduced(Reduction::sum_over_batch_size), 7, 1e-6);
  EXPECT_NEAR(reduced(Reduction::mean), 7, 1e-6);
  EXPECT_NEAR(reduced(Reduction::sum), 21, 1e-6);
  EXPECT_TRUE(at::allclose(MeanSquaredError({.reduction = Reduction::none})(labels(), predictions()),
                           at::tensor({4.0, 1.0, 16.0})));
}

TEST(Loss, WeighsSamplesButDividesByTheirNumber) {
  EXPECT_NEAR(reduced(Reduction::sum, weights()), 8, 1e-6);
  EXPECT_NEAR(reduced(Reduction::sum_over_batch_size, weights()), 8.0 / 3, 1e-6);
  EXPECT_NEAR(reduced(Reduction::mean_with_sample_weight, weights()), 8 / 2.75, 1e-6);
  EXPECT_NEAR(reduced(Reduction::sum, weights().view({3, 1})), 8, 1e-6);
}

TEST(Loss, AveragesOverTheLastAxisOnly) {
  const Tensor y = at::randn({2, 3, 4});
  const Tensor p = at::randn({2, 3, 4});
  const MeanAbsoluteError loss({.reduction = Reduction::none});
  EXPECT_TRUE(at::allclose(loss(y, p), (y - p).abs().mean(-1)));
  EXPECT_EQ(loss(y, p, at::rand({2})).sizes(), (std::vector<int64_t>{2, 3}));
}

TEST(Loss, SharesOfAnyShardsAddUpToTheWhole) {
  const Tensor y = at::randn({7, 2, 3});
  const Tensor p = at::randn({7, 2, 3});
  const Tensor w = at::rand({7});
  for (const Reduction reduction : {Reduction::sum_over_batch_size, Reduction::sum}) {
    const MeanSquaredError loss({.reduction = reduction});
    double sum = 0;
    for (const auto& [begin, end] : {std::pair{0, 4}, std::pair{4, 7}, std::pair{7, 7}})
      sum += loss.share(y.slice(0, begin, end), p.slice(0, begin, end), w.slice(0, begin, end), 7).item<double>();
    EXPECT_NEAR(sum, loss(y, p, w).item<double>(), 1e-5);
  }
}

TEST(Loss, LeavesOutWhatIsMasked) {
  const Tensor mask = at::tensor({1, 0, 1}).to(at::kBool);
  const auto masked = [&](Reduction reduction, const Tensor& weight) {
    return MeanSquaredError({.reduction = reduction})(labels(), predictions(), weight, mask);
  };
  EXPECT_NEAR(masked(Reduction::sum_over_batch_size, {}).item<double>(), 20.0 / 2, 1e-6);
  EXPECT_NEAR(masked(Reduction::mean, weights()).item<double>(), 6.0 / 2, 1e-6);
  EXPECT_NEAR(masked(Reduction::mean_with_sample_weight, weights()).item<double>(), 6 / 0.75, 1e-6);
  EXPECT_NEAR(masked(Reduction::mean_with_sample_weight, {}).item<double>(), 20.0 / 2, 1e-6);
  EXPECT_NEAR(masked(Reduction::sum, weights()).item<double>(), 6, 1e-6);
  EXPECT_TRUE(at::allclose(masked(Reduction::none, {}), at::tensor({4.0, 0.0, 16.0})));
}

TEST(Loss, OfNothingIsZero) {
  const Tensor nothing = at::zeros({3}, at::kBool);
  for (const Reduction reduction : {Reduction::mean, Reduction::mean_with_sample_weight}) {
    const MeanSquaredError loss({.reduction = reduction});
    EXPECT_EQ(loss(labels(), predictions(), weights(), nothing).item<double>(), 0);
    EXPECT_EQ(loss(at::ones({0, 2}), at::ones({0, 2})).item<double>(), 0);
  }
  EXPECT_EQ(reduced(Reduction::mean_with_sample_weight, at::tensor({1.0, -1.0, 0.0})), 0);
}

TEST(Loss, DoesNotSeeWhatStandsAtMaskedPlaces) {
  const Tensor p = at::tensor({3.0, std::nan(""), -1.0}).view({3, 1});
  const Tensor loss = MeanSquaredError()(labels(), p, {}, at::tensor({1, 0, 1}).to(at::kBool));
  EXPECT_NEAR(loss.item<double>(), 10, 1e-6);
}

TEST(Loss, MasksStepsOfSequencesAndWholeSamples) {
  const Tensor y = at::randn({2, 3, 4});
  const Tensor p = at::randn({2, 3, 4});
  const Tensor values = (y - p).square().mean(-1);
  const Tensor steps = at::tensor({1, 1, 0, 1, 0, 0}).view({2, 3}).to(at::kBool);
  const Tensor samples = at::tensor({0, 1}).to(at::kBool);
  const MeanSquaredError loss;
  EXPECT_TRUE(at::allclose(loss(y, p, {}, steps), values.masked_select(steps).mean()));
  EXPECT_TRUE(at::allclose(loss(y, p, {}, samples), values[1].mean()));
  EXPECT_THAT(error_of([&] {
                loss(y, p, {}, at::ones({2, 2}, at::kBool));
              }),
              HasSubstr("masks of shape (2, 2) do not fit values of shape (2, 3)"));
}

TEST(Loss, SharesOfReplicasDivideByWhatTheWholeBatchCounts) {
  const Tensor y = at::randn({5, 3, 2});
  const Tensor p = at::randn({5, 3, 2});
  const Tensor w = at::rand({5, 3});
  const Tensor mask = at::rand({5, 3}) > 0.4;
  for (const Reduction reduction : {Reduction::mean, Reduction::mean_with_sample_weight, Reduction::sum})
    for (const int64_t replicas : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << replicas << " replicas, reduction " << static_cast<int>(reduction));
      const MeanSquaredError loss({.reduction = reduction});
      MirroredStrategy strategy({.devices = configure_logical_cpus(static_cast<int>(replicas))});
      const auto shares = strategy.run([&] {
        const int64_t replica = get_replica_context().replica_id_in_sync_group();
        const auto own = [&](const Tensor& x) {  // 1, 3, 1 and 0 rows; of 2 replicas the second has the rest
          const std::vector<int64_t> begins{0, 1, 4, 5, 5};
          return x.slice(0, begins[replica], replica + 1 == replicas ? 5 : begins[replica + 1]);
        };
        return loss.share(own(y), own(p), own(w), 5, own(mask));
      });
      double sum = 0;
      for (const Tensor& share : shares) sum += share.item<double>();
      EXPECT_NEAR(sum, loss(y, p, w, mask).item<double>(), 1e-5);
    }
}

TEST(Loss, HasNoShareOfWhatIsNotASum) {
  const MeanSquaredError none({.reduction = Reduction::none});
  EXPECT_THAT(error_of([&] { none.share(labels(), predictions(), {}, 3); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(
      error_of([&] { MeanSquaredError().share(at::ones({3}), at::ones({3}), {}, 3); }),
      HasSubstr("predictions of shape (3,) give values of shape (); fit and evaluate need one or more for each"));
}

TEST(Loss, ComputesHalfPrecisionInSingle) {
  const Tensor p = at::tensor({300.0}).view({1, 1}).to(at::kHalf);  // its square is infinite in half precision
  const Tensor loss = MeanSquaredError()(at::zeros({1, 1}), p);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_EQ(loss.item<double>(), 90000);
  EXPECT_EQ(MeanSquaredError()(labels(), predictions().to(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(Loss, BringsVectorsAndColumnsTogetherAndNothingElse) {
  const MeanSquaredError loss;
  EXPECT_NEAR(loss(labels().squeeze(-1), predictions()).item<double>(), 7, 1e-6);
  EXPECT_NEAR(loss(labels().to(at::kLong), predictions()).item<double>(), 7, 1e-6);
  EXPECT_THAT(error_of([&] {
                loss(labels(), at::ones({3, 2}));
              }),
              HasSubstr("mean_squared_error: labels of shape (3, 1) do not fit predictions of shape (3, 2)"));
  EXPECT_THAT(error_of([&] { loss(labels(), predictions(), at::ones({2})); }),
              HasSubstr("weights of shape (2,) do not fit values of shape (3,)"));
}

TEST(Loss, CanBeWrittenByAnyone) {
  const Loss product("product", Reduction::sum, [](const Tensor& y, const Tensor& p) { return (y * p).sum(-1); });
  EXPECT_NEAR(product(labels(), predictions()).item<double>(), 2, 1e-6);
}

}  // namespace
}  // namespace tutti::keras::losses
