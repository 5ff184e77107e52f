#include "tutti/keras/layers/normalization/spectral_normalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras::layers {
namespace {

double largest_singular_value(const Tensor& kernel) {
  return at::linalg_svdvals(kernel.detach().flatten(0, -2)).max().item<double>();
}

TEST(SpectralNormalization, DoesOneStepOfPowerIteration) {
  const Dense dense({.units = 2, .use_bias = false});
  const SpectralNormalization layer(dense);
  const Tensor x = at::randn({4, 3});
  layer.build({kUnknown, 3});
  const Tensor w = dense.get_weights()[0], u = layer.get_weights()[0];
  EXPECT_EQ(layer.weights()[0].name, "vector_u");
  EXPECT_EQ(layer.weights()[1].name, "dense/kernel");
  EXPECT_TRUE(at::equal(layer(x), dense(x)));  // not in training
  const Tensor v = at::matmul(u, w.t()) / at::matmul(u, w.t()).norm(),
               next = at::matmul(v, w) / at::matmul(v, w).norm();
  const Tensor sigma = at::matmul(at::matmul(v, w), next.t());
  EXPECT_TRUE(at::allclose(layer(x, {.training = true}), at::matmul(x, w / sigma), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(dense.get_weights()[0], w / sigma, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(layer.get_weights()[0], next, 1e-4, 1e-6));
}

TEST(SpectralNormalization, BringsTheLargestSingularValueToOne) {
  const std::vector<std::pair<Layer, Tensor>> cases{
      {Dense({.units = 4}), at::randn({2, 3})},
      {Conv2D({.filters = 4}), at::randn({2, 5, 5, 3})},
      {Embedding({.input_dim = 5, .output_dim = 3}), at::zeros({2, 2}, at::kLong)}};
  for (const auto& [inner, x] : cases) {
    const SpectralNormalization layer(inner, {.power_iterations = 50});
    layer(x, {.training = true});
    layer(x, {.training = true});
    EXPECT_NEAR(largest_singular_value(inner.weights()[0].value), 1, 1e-3) << inner.name();
  }
}

TEST(SpectralNormalization, TrainsUnderReplicas) {
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] {
      return Sequential({SpectralNormalization(Dense({.units = 4}), {.power_iterations = 5}), Dense({.units = 1})});
    });
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.01}), .loss = losses::MeanSquaredError()});
    const Tensor x = at::randn({32, 3});
    const History history = model.fit(x, x.sum(1, true), {.batch_size = 8, .epochs = 5, .verbose = Verbose::silent});
    EXPECT_LT(history.history.at("loss").back(), history.history.at("loss").front());
    EXPECT_NEAR(largest_singular_value(model.get_weights()[1]), 1, 0.2) << replicas;
    EXPECT_EQ(model.trainable_variables().size(), 4U);
  }
}

TEST(SpectralNormalization, RefusesWhatHasNoKernel) {
  const Flatten flatten;
  EXPECT_THAT(error_of([&] {
                SpectralNormalization(flatten).build({kUnknown, 3});
              }),
              testing::HasSubstr("the layer flatten has neither a kernel nor embeddings"));
  EXPECT_THAT(error_of([] { SpectralNormalization(Dense({.units = 1}), {.power_iterations = 0}); }),
              testing::HasSubstr("power_iterations is 0"));
}

}  // namespace
}  // namespace tutti::keras::layers
