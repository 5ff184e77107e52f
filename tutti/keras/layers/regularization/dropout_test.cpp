#include "tutti/keras/layers/regularization/dropout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/three_replicas.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Dropout, RepeatsItsNoiseAlongAxesOfOne) {
  const Tensor y =
      Dropout({.rate = 0.5, .noise_shape = {kUnknown, 1, kUnknown}})(at::ones({50, 4, 6}), {.training = true});
  EXPECT_TRUE(at::equal(y, y.narrow(1, 0, 1).expand({50, 4, 6})));
  EXPECT_EQ(y.eq(0).logical_or(y.eq(2)).sum().item<int64_t>(), y.numel());
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.3);
  EXPECT_THAT(error_of([] {
                Dropout({.rate = 0.5, .noise_shape = {2, 3}})(at::ones({2, 4}));
              }),
              HasSubstr("dropout: the input has shape (2, 4); noise_shape (2, 3) cannot be repeated to it"));
}

TEST(Dropout, OfAllLeavesNothing) {
  EXPECT_TRUE(at::equal(Dropout({.rate = 1})(at::ones({3}), {.training = true}), at::zeros({3})));
  EXPECT_TRUE(at::equal(Dropout({.rate = 1, .noise_shape = {1}})(at::ones({3}), {.training = true}), at::zeros({3})));
}

TEST(SpatialDropout2D, DropsWholeChannels) {
  const Tensor y = SpatialDropout2D({.rate = 0.5})(at::ones({20, 3, 4, 10}), {.training = true});
  EXPECT_TRUE(at::equal(y, y.slice(1, 0, 1).slice(2, 0, 1).expand({20, 3, 4, 10})));
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.4);
  EXPECT_EQ(SpatialDropout1D({.rate = 0.5}).name(), "spatial_dropout1d");
}

TEST(AlphaDropout, KeepsMeanAndVariance) {
  const Tensor y = AlphaDropout({.rate = 0.3})(at::randn({200'000}), {.training = true});
  EXPECT_NEAR(y.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(y.std().item<double>(), 1, 0.02);
  // Dropped elements have one value, a * (-alpha') + b of Klambauer et al.
  const Tensor of_zeros = AlphaDropout({.rate = 0.3})(at::zeros({10'000}), {.training = true});
  EXPECT_NEAR(of_zeros.eq(of_zeros.min()).to(at::kFloat).mean().item<double>(), 0.3, 0.03);
}

TEST(GaussianDropout, HasTheMeanAndVarianceOfDropout) {
  const Tensor y = GaussianDropout({.rate = 0.2})(at::full({200'000}, 2.0), {.training = true});
  EXPECT_NEAR(y.mean().item<double>(), 2, 0.02);
  EXPECT_NEAR(y.std().item<double>(), 2 * 0.5, 0.02);
}

TEST(GaussianNoise, AddsNoise) {
  const Tensor y = GaussianNoise({.stddev = 0.5})(at::full({200'000}, 2.0), {.training = true});
  EXPECT_NEAR(y.mean().item<double>(), 2, 0.01);
  EXPECT_NEAR(y.std().item<double>(), 0.5, 0.01);
}

TEST(Noise, IsOfTrainingAlone) {
  const Tensor x = at::randn({3, 4});
  for (const Layer& layer : std::vector<Layer>{AlphaDropout({.rate = 0.5}), GaussianDropout({.rate = 0.5}),
                                               GaussianNoise({.stddev = 0.5}), Dropout({.rate = 0.5})})
    EXPECT_TRUE(layer(x).is_same(x)) << layer.name();
  EXPECT_TRUE(GaussianNoise({})(x, {.training = true}).is_same(x));
}

TEST(Noise, RefusesRatesThatItCannotHave) {
  EXPECT_THAT(error_of([] { AlphaDropout({.rate = 1}); }),
              HasSubstr("alpha_dropout: rate is 1; it must lie in [0, 1)"));
  EXPECT_THAT(error_of([] { GaussianDropout({.rate = -0.1}); }), HasSubstr("gaussian_dropout: rate is -0.1"));
  EXPECT_THAT(error_of([] { GaussianNoise({.stddev = 2}); }), HasSubstr("stddev is 2; it must lie in [0, 1]"));
}

class ReplicatedNoise : public ThreeReplicas {};

TEST_F(ReplicatedNoise, IsEachReplicasOwnAndRepeatable) {
  for (const Layer& layer : std::vector<Layer>{AlphaDropout({.rate = 0.5}), GaussianNoise({.stddev = 0.5}),
                                               Dropout({.rate = 0.5, .noise_shape = {kUnknown}})}) {
    const auto draw = [&] {
      set_random_seed(3);
      return strategy.run([&] { return layer(at::ones({50}), {.training = true}); });
    };
    const auto first = draw(), second = draw();
    EXPECT_FALSE(at::equal(first[0], first[1])) << layer.name();
    EXPECT_TRUE(at::equal(first[2], second[2])) << layer.name();
  }
}

}  // namespace
}  // namespace tutti::keras::layers
