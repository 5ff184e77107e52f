#include "tutti/keras/initializers.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tutti::keras::initializers {
namespace {

double largest(const Tensor& x) { return x.abs().max().item<double>(); }
double stddev(const Tensor& x) { return x.std().item<double>(); }

TEST(Initializers, ConstantsAreConstant) {
  EXPECT_EQ(Constant(-0.5)({2, 3}).sum().item<double>(), -3);
  EXPECT_EQ(Ones()({4}).sum().item<double>(), 4);
  EXPECT_EQ(Zeros()({4}, at::kDouble).scalar_type(), at::kDouble);
}

TEST(Initializers, GlorotUniformFillsItsRange) {
  const double limit = std::sqrt(6.0 / (300 + 200));
  const Tensor x = GlorotUniform()({300, 200});
  EXPECT_LE(largest(x), limit);
  EXPECT_GT(largest(x), 0.99 * limit);
  EXPECT_NEAR(stddev(x), limit / std::sqrt(3), 0.01 * limit);
}

TEST(Initializers, FansOfAKernelCountItsReceptiveField) {
  EXPECT_NEAR(stddev(LecunNormal()({5, 5, 8, 100})), 1 / std::sqrt(25 * 8), 0.002);
  EXPECT_NEAR(stddev(HeNormal()({5, 5, 8, 100})), std::sqrt(2.0 / (25 * 8)), 0.003);
  EXPECT_NEAR(stddev(GlorotNormal()({5, 5, 8, 100})), std::sqrt(2.0 / (25 * 108)), 0.001);
  EXPECT_LE(largest(HeUniform()({400})), std::sqrt(6.0 / 400));
  EXPECT_LE(largest(LecunUniform()({400, 3})), std::sqrt(3.0 / 400));
}

TEST(Initializers, TruncatedNormalEndsAtTwoDeviations) {
  const Tensor x = TruncatedNormal({.mean = 1, .stddev = 0.5})({100'000});
  EXPECT_LE(largest(x - 1), 1 + 1e-5);
  EXPECT_NEAR(x.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(stddev(x), 0.5 * 0.8796, 0.01);
  EXPECT_GT(largest(RandomNormal({.stddev = 0.5})({100'000})), 1.5);
  EXPECT_LE(largest(RandomUniform()({1000})), 0.05);
}

TEST(Initializers, KnowTheirKerasNames) {
  EXPECT_EQ(GlorotUniform().name(), "glorot_uniform");
  EXPECT_EQ(VarianceScaling().name(), "variance_scaling");
}

}  // namespace
}  // namespace tutti::keras::initializers
