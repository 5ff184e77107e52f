#include "tutti/keras/regularizers.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"

namespace tutti::keras::regularizers {
namespace {

using Mode = OrthogonalRegularizerOptions::Mode;

double penalty(const Regularizer& regularizer, const Tensor& weight) { return regularizer(weight).item<double>(); }

TEST(Regularizers, SumMagnitudesAndSquares) {
  const Tensor w = at::tensor({1.0, -2.0, 3.0});
  EXPECT_NEAR(penalty(L1(), w), 0.01 * 6, 1e-9);
  EXPECT_NEAR(penalty(L2(), w), 0.01 * 14, 1e-9);
  EXPECT_NEAR(penalty(L1L2({.l1 = 0.5, .l2 = 0.25}), w), 0.5 * 6 + 0.25 * 14, 1e-9);
}

TEST(Regularizers, OrthogonalIsTheMeanCosineOfAllPairs) {
  const Tensor w = at::tensor({3.0, 4.0, 0.0, 2.0, -1.0, 0.0}).view({3, 2});  // the cosines are 0.8, -0.6 and 0
  EXPECT_NEAR(penalty(OrthogonalRegularizer({.factor = 0.3}), w), 0.3 * (0.8 + 0.6) / 3, 1e-9);
  const double cosine = (3.0 * 4) / (std::sqrt(10.0) * std::sqrt(20.0));
  EXPECT_NEAR(penalty(OrthogonalRegularizer({.factor = 1, .mode = Mode::columns}), w), cosine, 1e-9);
  EXPECT_THAT(error_of([] { OrthogonalRegularizer()(at::ones({3})); }), testing::HasSubstr("it must be a matrix"));
}

}  // namespace
}  // namespace tutti::keras::regularizers
