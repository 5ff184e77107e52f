#include "tutti/keras/layers/preprocessing/discretization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<int64_t> bins_of(const Tensor& x) {
  const Tensor flat = x.to(at::kLong).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

Discretization adapted_bins(const DiscretizationOptions& options, const Tensor& x) {
  Discretization layer(options);
  layer.adapt(x);
  return layer;
}

Tensor examples() { return at::tensor({-1.5, 1.0, 3.4, .5, 0.0, 3.0, 1.3, 0.0}).reshape({2, 4}); }

// 0 to 100.8 in a scattered order.
Tensor scattered() {
  const Tensor i = at::arange(1009);
  return (i * i * 7 + i * 3).remainder(1009).to(at::kDouble) / 10.0;
}

// The examples of Keras's documentation.
TEST(Discretization, PutsNumbersBetweenBoundaries) {
  const Discretization layer({.bin_boundaries = {{0., 1., 2.}}});
  EXPECT_THAT(bins_of(layer(examples())), ElementsAre(0, 2, 3, 1, 1, 3, 2, 1));
  EXPECT_THAT(bins_of(layer(at::tensor({1, 2, -1}))), ElementsAre(2, 3, 0));
  EXPECT_EQ(layer(at::full({1}, std::numeric_limits<double>::quiet_NaN())).item<int64_t>(), 3);
}

TEST(Discretization, FindsBoundariesOfEquallyFullBins) {
  const Discretization layer = adapted_bins({.num_bins = 4}, examples());
  EXPECT_THAT(layer.bin_boundaries(), ElementsAre(0, 0.5, FloatEq(1.3)));
  EXPECT_THAT(bins_of(layer(examples())), ElementsAre(0, 2, 3, 2, 1, 3, 3, 1));
  EXPECT_THAT(adapted_bins({.num_bins = 3}, at::tensor({7, 7, 7, 7})).bin_boundaries(), ElementsAre(7, 7));
}

// Expected: Keras's summarize and merge_summaries on the same numbers.
TEST(Discretization, SummarizesManyNumbersAsKerasDoes) {
  EXPECT_THAT(adapted_bins({.num_bins = 4}, scattered()).bin_boundaries(),
              ElementsAre(FloatEq(26.000011444091797), FloatEq(48.40004348754883), FloatEq(74.20003509521484)));
  Discretization halves({.num_bins = 5});
  halves.adapt(std::vector{scattered().narrow(0, 0, 500), scattered().narrow(0, 500, 509)});
  EXPECT_THAT(halves.bin_boundaries(), ElementsAre(FloatEq(20.62006950378418), FloatEq(38.581275939941406),
                                                   FloatEq(59.1354866027832), FloatEq(80.43301391601562)));
  Discretization coarse({.num_bins = 3, .epsilon = 0.1});
  coarse.adapt(scattered().narrow(0, 0, 1000).split(100));
  EXPECT_THAT(coarse.bin_boundaries(), ElementsAre(FloatEq(38.600006103515625), FloatEq(73.79999542236328)));
}

TEST(Discretization, AdaptingBatchByBatchIsAdaptingToAllWhileTheSummaryHoldsAll) {
  Discretization layer({.num_bins = 3});
  layer.adapt(std::vector{at::tensor({1., 2., 3.}), at::zeros({0}), at::tensor({4., 5., 6.})});
  EXPECT_THAT(layer.bin_boundaries(), ElementsAre(2, 4));
  EXPECT_EQ(layer.bin_boundaries(), adapted_bins({.num_bins = 3}, at::arange(1., 7.)).bin_boundaries());
}

// Values of Keras's tests.
TEST(Discretization, EncodesEachNumberOrEachSample) {
  const std::vector<float> boundaries{0, 0.5, 1};
  const Tensor one_hot =
      Discretization({.bin_boundaries = boundaries, .output_mode = OutputMode::one_hot})(at::tensor({0.1, 0.8}));
  EXPECT_EQ(one_hot.scalar_type(), at::kFloat);
  EXPECT_THAT(bins_of(one_hot), ElementsAre(0, 1, 0, 0, 0, 0, 1, 0));
  const Tensor samples = at::tensor({0.15, 0.75, 0.85, 0.45}).reshape({1, 2, 2});
  const Discretization multi_hot({.bin_boundaries = boundaries, .output_mode = OutputMode::multi_hot});
  EXPECT_THAT(bins_of(multi_hot(samples)), ElementsAre(0, 1, 1, 0, 0, 1, 1, 0));
  EXPECT_EQ(multi_hot(samples).sizes(), multi_hot.compute_output_shape({1, 2, 2}));
  const Discretization count({.bin_boundaries = boundaries, .output_mode = OutputMode::count});
  EXPECT_THAT(bins_of(count(at::tensor({0.1, 0.8, 0.9}).unsqueeze(0))), ElementsAre(0, 1, 2, 0));
}

TEST(Discretization, RefusesWhatDoesNotFit) {
  const auto refused = [](const DiscretizationOptions& options) {
    return error_of([&] { Discretization layer(options); });
  };
  EXPECT_THAT(refused({}), StartsWith("invalid_argument: discretization: either bin_boundaries or num_bins"));
  EXPECT_THAT(refused({.bin_boundaries = {{1.}}, .num_bins = 2}), HasSubstr("and not both"));
  EXPECT_THAT(refused({.bin_boundaries = {{1., 0.}}}), HasSubstr("bin_boundaries are [1, 0]; they must ascend"));
  EXPECT_THAT(refused({.num_bins = 0}), HasSubstr("num_bins is 0"));
  EXPECT_THAT(refused({.num_bins = 2, .epsilon = 0}), HasSubstr("epsilon is 0"));
  EXPECT_THAT(refused({.num_bins = 2, .output_mode = OutputMode::tf_idf}), HasSubstr("needs a vocabulary"));
  Discretization layer({.num_bins = 2});
  EXPECT_THAT(error_of([&] { layer(examples()); }), StartsWith("failed_precondition: discretization: there are no"));
  EXPECT_THAT(error_of([&] { layer.adapt(at::zeros({0})); }), HasSubstr("adapt() found no number"));
  Discretization given({.bin_boundaries = {{1.}}});
  EXPECT_THAT(error_of([&] { given.adapt(examples()); }), HasSubstr("would replace the bin_boundaries"));
}

}  // namespace
}  // namespace tutti::keras::layers
