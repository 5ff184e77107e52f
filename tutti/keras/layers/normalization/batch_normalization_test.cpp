#include "tutti/keras/layers/normalization/batch_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/three_replicas.h"
#include "tutti/distribute/gradients.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const Layer& layer) {
  std::vector<std::string> result;
  for (const Weight& weight : layer.weights()) result.push_back(weight.name);
  return result;
}

Tensor normalized(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon = 1e-3) {
  return (x - mean) / (variance + epsilon).sqrt();
}

TEST(BatchNormalization, NormalizesByTheBatchAndFollowsItWithoutBesselsCorrection) {
  const Tensor x = at::randn({4, 3, 2, 5}) * 2 + 1;
  const Tensor rows = x.view({24, 5});
  const BatchNormalization layer({.momentum = 0.9});
  const Tensor mean = rows.mean(0), variance = rows.var(0, /*unbiased=*/false);
  EXPECT_TRUE(at::allclose(layer(x, {.training = true}), normalized(x, mean, variance), 1e-4, 1e-5));
  EXPECT_THAT(names(layer), ElementsAre("gamma", "beta", "moving_mean", "moving_variance"));
  EXPECT_EQ(layer.trainable_variables().size(), 2U);
  const Tensor moving_mean = 0.1 * mean, moving_variance = 0.9 + 0.1 * variance;
  EXPECT_TRUE(at::allclose(layer.get_weights()[2], moving_mean, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(layer.get_weights()[3], moving_variance, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(layer(x), normalized(x, moving_mean, moving_variance), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(layer.get_weights()[2], moving_mean, 1e-5, 1e-6));
}

TEST(BatchNormalization, NormalizesAnyAxis) {
  const Tensor x = at::randn({4, 3, 5});
  const BatchNormalization last, middle({.axis = 1});
  const Tensor expected = last(x.transpose(1, 2), {.training = true}).transpose(1, 2);
  EXPECT_TRUE(at::allclose(middle(x, {.training = true}), expected, 1e-5, 1e-6));
  EXPECT_EQ(middle.weights()[0].value.size(0), 3);
}

TEST(BatchNormalization, OfOneRowHasNoVariance) {
  const BatchNormalization layer({.momentum = 0});
  const Tensor x = at::randn({1, 3});
  EXPECT_TRUE(at::allclose(layer(x, {.training = true}), at::zeros({1, 3}), 0, 1e-4));
  EXPECT_TRUE(at::allclose(layer.get_weights()[2], x[0]));
  EXPECT_TRUE(at::equal(layer.get_weights()[3], at::zeros({3})));
}

TEST(BatchNormalization, OfNoRowsChangesNothing) {
  for (const bool synchronized : {false, true}) {
    const BatchNormalization layer({.synchronized = synchronized});
    const Tensor y = layer(at::zeros({0, 3}), {.training = true});
    EXPECT_EQ(y.sizes(), (Shape{0, 3}));
    EXPECT_TRUE(at::equal(layer.get_weights()[2], at::zeros({3})));
    EXPECT_TRUE(at::equal(layer.get_weights()[3], at::ones({3})));
    EXPECT_TRUE(at::equal(gradients(y.sum(), layer.trainable_variables())[0], at::zeros({3})));
  }
}

TEST(BatchNormalization, HasNoScaleOrCenterIfSaidSo) {
  const BatchNormalization layer({.center = false, .scale = false});
  const Tensor x = at::randn({4, 3});
  EXPECT_NEAR(layer(x, {.training = true}).mean().item<double>(), 0, 1e-6);
  EXPECT_THAT(names(layer), ElementsAre("moving_mean", "moving_variance"));
}

TEST(BatchNormalization, DoesNotCountWhatAMaskHides) {
  const Tensor x = at::randn({2, 3, 4});
  const Tensor mask = at::tensor({1, 1, 0, 1, 0, 0}).to(at::kBool).view({2, 3});
  const Tensor shown = at::stack({x[0][0], x[0][1], x[1][0]});
  const BatchNormalization layer({.momentum = 0});
  const Tensor y = layer(x, {.training = true, .masks = {mask}});
  const Tensor mean = shown.mean(0), variance = shown.var(0, /*unbiased=*/false);
  EXPECT_TRUE(at::allclose(y, normalized(x, mean, variance), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(layer.get_weights()[3], variance, 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(layer.compute_mask(x, mask), mask));
  EXPECT_THAT(error_of([&] { layer(x, {.training = true, .masks = {mask[0]}}); }),
              HasSubstr("the mask has shape (3,); it must have the input's, (2, 3, 4), without the channels"));
}

TEST(BatchNormalization, FrozenUsesItsMovingStatistics) {
  const BatchNormalization layer;
  layer.build({kUnknown, 3});
  layer.set_trainable(false);
  const Tensor x = at::randn({4, 3});
  EXPECT_TRUE(at::equal(layer(x, {.training = true}), layer(x)));
  EXPECT_TRUE(at::equal(layer.get_weights()[2], at::zeros({3})));
}

TEST(BatchNormalization, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { BatchNormalization({.momentum = 2}); }), HasSubstr("momentum must lie in [0, 1]"));
  EXPECT_THAT(error_of([] { BatchNormalization().build({kUnknown}); }), HasSubstr("[batch, ..., channels]"));
  EXPECT_THAT(error_of([] { BatchNormalization().build({kUnknown, kUnknown}); }), HasSubstr("must be known"));
  EXPECT_THAT(error_of([] { BatchNormalization({.axis = 3}).build({kUnknown, 2}); }), HasSubstr("has no axis 3"));
  const BatchNormalization layer;
  layer(at::zeros({2, 3}));
  EXPECT_THAT(error_of([&] {
                layer(at::zeros({2, 4}));
              }),
              HasSubstr("batch_normalization: the input has shape (2, 4); the layer was built for an extent of 3"));
}

class ReplicatedBatchNormalization : public ThreeReplicas {
 protected:
  // What a step gives: the output, and the gradients of a loss to x, gamma and beta.
  static std::vector<Tensor> step(const Layer& layer, const Tensor& shard, const Tensor& weights) {
    const Tensor x = shard.clone().requires_grad_();
    const Tensor y = layer(x, {.training = true});
    std::vector<Tensor> variables = layer.trainable_variables();
    variables.push_back(x);
    std::vector<Tensor> results = gradients((y * weights).sum(), variables);
    results.push_back(y.detach());
    return results;
  }

  PerReplica<std::vector<Tensor>> run(const Layer& layer, const PerReplica<Tensor>& x,
                                      const PerReplica<Tensor>& weights) {
    return strategy.run([&](const Tensor& shard, const Tensor& w) { return step(layer, shard, w); }, x, weights);
  }

  Layer build(const BatchNormalizationOptions& options) {
    return strategy.build([&] {
      const BatchNormalization layer(options);
      layer.build({kUnknown, 3});
      return layer;
    });
  }

  // Five rows, two and none.
  static PerReplica<Tensor> shards(const Tensor& rows) {
    return {rows.slice(0, 0, 5), rows.slice(0, 5, 7), rows.slice(0, 7, 7)};
  }
};

TEST_F(ReplicatedBatchNormalization, IsEachReplicasOwn) {
  const Layer layer = build({.momentum = 0});
  const Tensor x = at::randn({7, 3}), weights = at::randn({7, 3});
  const auto results = run(layer, shards(x), shards(weights));
  for (const size_t replica : {0U, 1U, 2U}) {
    const Layer own = BatchNormalization({.momentum = 0});
    const std::vector<Tensor> expected = step(own, shards(x)[replica], shards(weights)[replica]);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::allclose(results[replica][i], expected[i], 1e-4, 1e-5)) << replica << ' ' << i;
  }
  EXPECT_TRUE(at::allclose(layer.get_weights()[2], x.slice(0, 0, 5).mean(0), 1e-4, 1e-5));
  const auto own = strategy.run([&] { return layer.weights()[2].value.clone(); });
  EXPECT_TRUE(at::allclose(own[1], x.slice(0, 5, 7).mean(0), 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(own[2], at::zeros({3})));
}

TEST_F(ReplicatedBatchNormalization, SynchronizedIsThatOfTheGlobalBatchForAnyShards) {
  const Layer layer = build({.momentum = 0.5, .synchronized = true});
  const Layer one = BatchNormalization({.momentum = 0.5});
  const Tensor weights = at::randn({7, 3});
  for (const double mean : {0.0, 1e3}) {  // a large one leaves few digits for the variance
    const Tensor x = at::randn({7, 3}) + mean;
    const double tolerance = mean > 0 ? 1e-3 : 1e-5;
    const std::vector<Tensor> expected = step(one, x, weights);
    const auto results = run(layer, shards(x), shards(weights));
    const auto joined = [&](size_t i) { return at::cat({results[0][i], results[1][i], results[2][i]}); };
    const auto summed = [&](size_t i) { return results[0][i] + results[1][i] + results[2][i]; };
    EXPECT_TRUE(at::allclose(summed(0), expected[0], 1e-4, tolerance));
    EXPECT_TRUE(at::allclose(summed(1), expected[1], 1e-4, tolerance));
    EXPECT_TRUE(at::allclose(joined(2), expected[2], 1e-3, tolerance));
    EXPECT_TRUE(at::allclose(joined(3), expected[3], 1e-4, tolerance));
    for (const size_t i : {2U, 3U}) {
      EXPECT_TRUE(at::allclose(layer.get_weights()[i], one.get_weights()[i], 1e-4, 1e-5)) << i;
      const auto own = strategy.run([&] { return layer.weights()[i].value.clone(); });
      EXPECT_TRUE(at::equal(own[2], own[0])) << i;
    }
  }
}

TEST_F(ReplicatedBatchNormalization, SynchronizedOverEmptyShardsChangesNothing) {
  const Layer layer = build({.synchronized = true});
  const PerReplica<Tensor> nothing{at::zeros({0, 3}), at::zeros({0, 3}), at::zeros({0, 3})};
  const auto results = run(layer, nothing, nothing);
  EXPECT_TRUE(at::equal(results[1][0], at::zeros({3})));
  EXPECT_TRUE(at::equal(layer.get_weights()[3], at::ones({3})));
}

TEST_F(ReplicatedBatchNormalization, InGlobalViewIsThatOfTheGlobalBatch) {
  const Layer layer = build({.momentum = 0}), one = BatchNormalization({.momentum = 0});
  const Tensor x = at::randn({7, 3});
  const Tensor y = layer(x, {.training = true});
  EXPECT_TRUE(at::allclose(gather(y), one(x, {.training = true}), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(layer.get_weights()[3], one.get_weights()[3], 1e-4, 1e-5));
  const auto own = strategy.run([&] { return layer.weights()[3].value.clone(); });
  EXPECT_TRUE(at::equal(own[2], layer.get_weights()[3]));
}

}  // namespace
}  // namespace tutti::keras::layers
