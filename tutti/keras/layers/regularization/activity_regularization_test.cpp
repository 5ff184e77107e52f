#include "tutti/keras/layers/regularization/activity_regularization.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

TEST(ActivityRegularization, AddsItsPenaltyPerSample) {
  const ActivityRegularization layer({.l1 = 0.5, .l2 = 0.1});
  AddedLosses added;
  const Tensor x = at::tensor({1.0, -2.0, 3.0, 0.0}).view({2, 2}).requires_grad_();
  EXPECT_TRUE(layer(x, {.training = true, .added_losses = &added}).is_alias_of(x));
  layer(at::zeros({0, 2}), {.training = true, .added_losses = &added});
  ASSERT_EQ(added.size(), 2U);
  EXPECT_EQ(added[0].first, ReduceOp::mean);
  EXPECT_NEAR(added[0].second.item<double>(), (0.5 * 6 + 0.1 * 14) / 2, 1e-9);
  EXPECT_TRUE(added[0].second.requires_grad());
  EXPECT_EQ(added[1].second.item<double>(), 0);
  EXPECT_THAT(error_of([] { ActivityRegularization({.l1 = -1}); }), testing::HasSubstr("neither may be negative"));
}

}  // namespace
}  // namespace tutti::keras::layers
