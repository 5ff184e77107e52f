#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

namespace tutti::keras::losses {
namespace {

using ::testing::HasSubstr;

TEST(BinaryCrossentropy, IsTheMeanOfTheLogarithms) {
  const Tensor y = at::tensor({1.0, 0.0}).view({1, 2});
  const Tensor p = at::tensor({0.8, 0.4}).view({1, 2});
  const double expected = -(std::log(0.8) + std::log(0.6)) / 2;
  EXPECT_NEAR(BinaryCrossentropy()(y, p).item<double>(), expected, 1e-7);
  EXPECT_NEAR(BinaryCrossentropy({.from_logits = true})(y, p.logit()).item<double>(), expected, 1e-7);
}

TEST(BinaryCrossentropy, ClipsProbabilitiesAndSmoothsLabels) {
  const Tensor one = at::tensor({1.0}).view({1, 1});
  EXPECT_NEAR(BinaryCrossentropy()(one, 0 * one).item<double>(), -std::log(1e-7), 1e-6);
  const double smoothed = -(0.95 * std::log(0.8) + 0.05 * std::log(0.2));
  EXPECT_NEAR(BinaryCrossentropy({.label_smoothing = 0.1})(one, 0.8 * one).item<double>(), smoothed, 1e-7);
  EXPECT_THAT(error_of([] { BinaryCrossentropy({.label_smoothing = 2}); }), HasSubstr("it must lie in [0, 1]"));
}

TEST(Crossentropies, OfOneHotAndSparseLabelsAgree) {
  const Tensor y = at::randint(5, {3, 4}, at::kLong);
  const Tensor logits = at::randn({3, 4, 5});
  const Tensor one_hot = at::one_hot(y, 5);
  const Tensor expected = CategoricalCrossentropy({.from_logits = true, .reduction = Reduction::none})(one_hot, logits);
  EXPECT_EQ(expected.sizes(), y.sizes());
  const auto sparse = [&](bool from_logits, const Tensor& labels, const Tensor& predictions) {
    return SparseCategoricalCrossentropy({.from_logits = from_logits, .reduction = Reduction::none})(labels,
                                                                                                     predictions);
  };
  EXPECT_TRUE(at::allclose(sparse(true, y, logits), expected, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(sparse(true, y.unsqueeze(-1), logits), expected, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(sparse(false, y.to(at::kInt), logits.softmax(-1)), expected, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(CategoricalCrossentropy({.reduction = Reduction::none})(one_hot, 3 * logits.softmax(-1)),
                           expected, 1e-4, 1e-5));
}

TEST(SparseCategoricalCrossentropy, ComputesFromProbabilitiesThatDoNotSumToOne) {
  const Tensor p = at::tensor({0.2, 0.3, 1.5}).view({1, 3});
  const Tensor label = at::tensor(std::vector<int64_t>{1});
  // Probabilities are clipped to [0, 1], then scaled.
  EXPECT_NEAR(SparseCategoricalCrossentropy()(label, p).item<double>(), -std::log(0.3 / 1.5), 1e-6);
}

TEST(SparseCategoricalCrossentropy, LeavesOutAClass) {
  const Tensor y = at::tensor(std::vector<int64_t>{0, -1, 2, -1});
  Tensor logits = at::randn({4, 3});
  logits[1].fill_(std::nan(""));
  logits.requires_grad_(true);
  const Tensor expected = -(logits.detach().log_softmax(-1)[0][0] + logits.detach().log_softmax(-1)[2][2]) / 2;
  const Tensor loss = SparseCategoricalCrossentropy({.from_logits = true, .ignore_class = -1})(y, logits);
  EXPECT_TRUE(at::allclose(loss, expected));
  loss.backward();
  EXPECT_EQ(logits.grad().slice(0, 1, 2).abs().sum().item<double>(), 0);
  EXPECT_GT(logits.grad()[0].abs().sum().item<double>(), 0);
}

TEST(BinaryFocalCrossentropy, WeighsWhatIsWellClassifiedLess) {
  const Tensor y = at::tensor({1.0, 0.0}).view({1, 2});
  const Tensor p = at::tensor({0.9, 0.4}).view({1, 2});
  const double one = -std::log(0.9), zero = -std::log(0.6);
  EXPECT_NEAR(BinaryFocalCrossentropy()(y, p).item<double>(), (0.01 * one + 0.16 * zero) / 2, 1e-6);
  EXPECT_NEAR(BinaryFocalCrossentropy({.gamma = 0, .from_logits = true})(y, p.logit()).item<double>(),
              BinaryCrossentropy()(y, p).item<double>(), 1e-6);
  EXPECT_NEAR(BinaryFocalCrossentropy({.apply_class_balancing = true, .alpha = 0.3})(y, p).item<double>(),
              (0.3 * 0.01 * one + 0.7 * 0.16 * zero) / 2, 1e-6);
}

TEST(CategoricalFocalCrossentropy, WeighsWhatIsWellClassifiedLess) {
  const Tensor y = at::tensor({0.0, 1.0, 0.0}).view({1, 3});
  const Tensor p = at::tensor({0.1, 0.7, 0.2}).view({1, 3});
  const double expected = -0.25 * 0.09 * std::log(0.7);
  EXPECT_NEAR(CategoricalFocalCrossentropy()(y, p).item<double>(), expected, 1e-6);
  EXPECT_NEAR(CategoricalFocalCrossentropy({.from_logits = true})(y, p.log()).item<double>(), expected, 1e-6);
}

TEST(Crossentropies, TakeTheirAxisButNotThatOfTheBatch) {
  const Tensor y = at::one_hot(at::randint(3, {2, 4}, at::kLong), 3);
  const Tensor p = at::randn({2, 4, 3});
  const Tensor last = CategoricalCrossentropy({.from_logits = true})(y, p);
  const CategoricalCrossentropy second({.from_logits = true, .axis = 1});
  EXPECT_TRUE(at::allclose(second(y.transpose(1, 2), p.transpose(1, 2)), last));
  EXPECT_THAT(error_of([&] { CategoricalCrossentropy({.axis = 3})(y, p); }),
              HasSubstr("axis is 3; the predictions have 3 axes"));
  EXPECT_THAT(error_of([&] { BinaryCrossentropy({.axis = 0})(y, p); }), HasSubstr("that of the batch"));
}

TEST(SparseCategoricalCrossentropy, NamesLabelsOutOfRange) {
  const SparseCategoricalCrossentropy loss({.from_logits = true});
  for (const int64_t label : {3L, -1L, -100L})
    EXPECT_THAT(error_of([&] {
                  loss(at::tensor(std::vector<int64_t>{0, label}), at::randn({2, 3}));
                }),
                HasSubstr("invalid_argument: sparse_categorical_crossentropy: a label lies outside of [0, 3)"))
        << label;
}

TEST(SparseCategoricalCrossentropy, RefusesLabelsOfAnotherShape) {
  const SparseCategoricalCrossentropy loss({.from_logits = true});
  EXPECT_THAT(error_of([&] {
                loss(at::randint(3, {4}, at::kLong), at::randn({2, 3}));
              }),
              HasSubstr("labels of shape (4,) do not fit predictions of shape (2, 3)"));
}

}  // namespace
}  // namespace tutti::keras::losses
