#include "tutti/keras/losses/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
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

TEST(Loss, HasNoShareOfWhatIsNotASum) {
  const MeanSquaredError none({.reduction = Reduction::none});
  EXPECT_THAT(error_of([&] { none.share(labels(), predictions(), {}, 3); }), HasSubstr("invalid_argument"));
  const MeanSquaredError weighted({.reduction = Reduction::mean_with_sample_weight});
  EXPECT_THAT(error_of([&] { weighted.share(labels(), predictions(), weights(), 3); }), HasSubstr("unimplemented"));
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
