#include "tutti/keras/layers/regularization/activity_regularization.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/attention/multi_head_attention.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"

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

// A layer with an activity regularizer adds that penalty of its output to the loss, by sample.
TEST(ActivityRegularizer, IsAnOptionOfLayersWithWeights) {
  const regularizers::L2 penalty(0.5);
  const Tensor sequence = at::randn({3, 5, 4});
  const std::vector<std::pair<Layer, Tensor>> cases{
      {Dense({.units = 2, .activity_regularizer = penalty}), sequence},
      {Embedding({.input_dim = 4, .output_dim = 2, .activity_regularizer = penalty}), at::ones({3, 5}, at::kLong)},
      {Conv1D({.filters = 2, .activity_regularizer = penalty}), sequence},
      {Conv1DTranspose({.filters = 2, .activity_regularizer = penalty}), sequence},
      {DepthwiseConv1D({.activity_regularizer = penalty}), sequence},
      {SeparableConv1D({.filters = 2, .activity_regularizer = penalty}), sequence},
      {SimpleRNN({.units = 2, .activity_regularizer = penalty}), sequence},
      {LSTM({.units = 2, .activity_regularizer = penalty}), sequence},
      {GRU({.units = 2, .activity_regularizer = penalty}), sequence},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 3, .activity_regularizer = penalty}), sequence}};
  for (const auto& [layer, x] : cases) {
    AddedLosses added;
    const Tensor y = layer(x, {.training = true, .added_losses = &added});
    ASSERT_EQ(added.size(), 1U) << layer.name();
    EXPECT_NEAR(added[0].second.item<double>(), penalty(y).item<double>() / 3, 1e-5) << layer.name();
  }
}

}  // namespace
}  // namespace tutti::keras::layers
