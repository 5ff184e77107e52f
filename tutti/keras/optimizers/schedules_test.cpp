#include "tutti/keras/optimizers/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"

namespace tutti::keras::optimizers::schedules {
namespace {

using ::testing::HasSubstr;

TEST(Schedules, FollowTheirFormulas) {
  const ExponentialDecay exponential({.initial_learning_rate = 0.4, .decay_steps = 2, .decay_rate = 0.25});
  EXPECT_DOUBLE_EQ(exponential(1), 0.2);
  const ExponentialDecay stairs(
      {.initial_learning_rate = 0.4, .decay_steps = 2, .decay_rate = 0.25, .staircase = true});
  EXPECT_DOUBLE_EQ(stairs(1), 0.4);
  const InverseTimeDecay inverse({.initial_learning_rate = 0.4, .decay_steps = 2, .decay_rate = 2});
  EXPECT_DOUBLE_EQ(inverse(1), 0.2);
  const PiecewiseConstantDecay pieces({.boundaries = {2, 4}, .values = {1, 0.5, 0.25}});
  EXPECT_EQ(pieces(2), 1);
  EXPECT_EQ(pieces(3), 0.5);
  EXPECT_EQ(pieces(5), 0.25);
  const PolynomialDecay polynomial(
      {.initial_learning_rate = 1, .decay_steps = 4, .end_learning_rate = 0.5, .power = 2, .cycle = true});
  EXPECT_DOUBLE_EQ(polynomial(2), 0.625);
  EXPECT_DOUBLE_EQ(polynomial(4), 0.5);
  EXPECT_DOUBLE_EQ(polynomial(6), 0.5 + 0.5 / 16);  // a quarter is left of 8
}

TEST(CosineDecay, BeginsAfterItsWarmup) {
  const CosineDecay decay(
      {.initial_learning_rate = 0.2, .decay_steps = 4, .alpha = 0.5, .warmup_target = 1, .warmup_steps = 2});
  EXPECT_DOUBLE_EQ(decay(0), 0.2);
  EXPECT_DOUBLE_EQ(decay(1), 0.6);
  EXPECT_DOUBLE_EQ(decay(2), 1);
  EXPECT_DOUBLE_EQ(decay(4), 0.75);
  EXPECT_DOUBLE_EQ(decay(100), 0.5);
}

// Logarithms say too little for some of these steps: log(1.1^n) / log(1.1) may be less than n.
TEST(CosineDecayRestarts, BeginsEachPeriodAtTheTop) {
  for (const double t_mul : {1.0, 1.5, 2.0, 3.0, 5.0}) {
    const CosineDecayRestarts decay({.initial_learning_rate = 1, .first_decay_steps = 1024, .t_mul = t_mul});
    double step = 0;
    for (int period = 0; period < 9; step += 1024 * std::pow(t_mul, period++))
      EXPECT_NEAR(decay(static_cast<int64_t>(step)), 1, 1e-5) << "t_mul " << t_mul << ", period " << period;
  }
}

TEST(CosineDecayRestarts, EndsWhereItsPeriodsDo) {
  const CosineDecayRestarts decay({.initial_learning_rate = 2, .first_decay_steps = 8, .t_mul = 0.5, .alpha = 0.25});
  EXPECT_DOUBLE_EQ(decay(8), 2);
  EXPECT_DOUBLE_EQ(decay(16), 0.5);
  EXPECT_DOUBLE_EQ(decay(1000), 0.5);
}

TEST(Schedules, RefuseWhatTheyCannotFollow) {
  EXPECT_THAT(error_of([] { ExponentialDecay({.decay_steps = 0}); }), HasSubstr("decay_steps is 0"));
  EXPECT_THAT(error_of([] { InverseTimeDecay({.decay_steps = -1}); }), HasSubstr("decay_steps is -1"));
  EXPECT_THAT(error_of([] { PolynomialDecay({}); }), HasSubstr("it must be positive"));
  EXPECT_THAT(error_of([] { CosineDecay({}); }), HasSubstr("CosineDecay: decay_steps"));
  EXPECT_THAT(error_of([] { CosineDecayRestarts({}); }), HasSubstr("first_decay_steps is 0"));
  EXPECT_THAT(error_of([] { CosineDecayRestarts({.first_decay_steps = 1, .t_mul = 0}); }), HasSubstr("t_mul is 0"));
  EXPECT_THAT(error_of([] { PiecewiseConstantDecay({.boundaries = {5}, .values = {1}}); }),
              HasSubstr("one value more than boundaries"));
  EXPECT_THAT(error_of([] {
                PiecewiseConstantDecay({.boundaries = {5, 3}, .values = {1, 1, 1}});
              }),
              HasSubstr("boundaries must ascend"));
}

}  // namespace
}  // namespace tutti::keras::optimizers::schedules
