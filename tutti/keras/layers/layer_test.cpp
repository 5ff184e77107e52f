#include "tutti/keras/layers/layer.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <thread>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/keras/activations.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Layer, CopiesAreTheSameLayer) {
  const Layer layer = Dense({.units = 2});
  const Layer copy = layer;
  layer.build({kUnknown, 3});
  EXPECT_TRUE(copy.built());
  EXPECT_TRUE(copy.weights()[0].value.is_same(layer.weights()[0].value));
}

TEST(Layer, IsBuiltOnceByThreadsThatMeet) {
  const Layer layer = Dense({.units = 2});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { layer(at::ones({1, 3})); });
  }
  EXPECT_EQ(layer.weights().size(), 2U);
}

TEST(Layer, HasKerassDefaultName) {
  EXPECT_EQ(Layer(Dense({.units = 1})).name(), "dense");
  EXPECT_EQ(ReLU().name(), "re_lu");
  EXPECT_EQ(Flatten({.name = "flat"}).name(), "flat");
}

TEST(Layer, WeightsLiveInATorchModule) {
  const Dense dense({.units = 2});
  dense.build({kUnknown, 3});
  const auto named = dense.module()->named_parameters();
  ASSERT_EQ(named.size(), 2U);
  EXPECT_TRUE(named["kernel"].is_same(dense.weights()[0].value));
  EXPECT_TRUE(named["kernel"].requires_grad());
}

TEST(Layer, SetWeightsIsTheInverseOfGetWeights) {
  const Dense dense({.units = 2});
  dense.build({kUnknown, 3});
  const std::vector<Tensor> values{at::randn({3, 2}), at::randn({2})};
  dense.set_weights(values);
  EXPECT_TRUE(at::equal(dense.get_weights()[0], values[0]));
  EXPECT_THAT(error_of([&] {
                dense.set_weights({values[1], values[0]});
              }),
              HasSubstr("dense/kernel has shape (3, 2), its value (2,)"));
  EXPECT_THAT(error_of([&] { dense.set_weights({values[0]}); }), HasSubstr("2 weights, but 1 values"));
}

TEST(Layer, AnyTorchModuleIsOne) {
  torch::nn::Linear linear(3, 2);
  const Layer layer = linear;
  const Tensor x = at::randn({4, 3});
  EXPECT_TRUE(at::equal(layer(x), linear(x)));
  EXPECT_EQ(layer.name(), "linear");
  EXPECT_EQ(layer.compute_output_shape({kUnknown, 3}), (Shape{kUnknown, 2}));
  ASSERT_EQ(layer.trainable_variables().size(), 2U);
  EXPECT_TRUE(layer.trainable_variables()[0].is_same(linear->weight));
}

TEST(Layer, ATorchModuleFollowsTheTrainingFlagAndKeepsItsBuffersApart) {
  torch::nn::BatchNorm1d norm(3);
  const Layer layer = norm;
  EXPECT_EQ(layer.weights().size(), 5U);
  EXPECT_EQ(layer.trainable_variables().size(), 2U);
  const Tensor x = at::randn({8, 3});
  layer(x, {.training = false});
  EXPECT_TRUE(at::equal(norm->running_mean, at::zeros({3})));
  (void)layer.compute_output_shape({kUnknown, 3});
  EXPECT_TRUE(at::equal(norm->running_mean, at::zeros({3})));
  layer(x, {.training = true});
  EXPECT_FALSE(at::equal(norm->running_mean, at::zeros({3})));
}

TEST(Layer, NamesItselfInErrorsOfLibTorch) {
  const Layer linear = torch::nn::Linear(5, 2);
  EXPECT_THAT(error_of([&] {
                linear(at::ones({1, 5}, at::kLong));
              }),
              HasSubstr("invalid_argument: linear: mat1 and mat2 must have the same dtype, but got Long and Float; the "
                        "input is Long (1, 5); the weights are Float"));
  EXPECT_THAT(error_of([&] { linear(at::ones({4, 3})); }), HasSubstr("linear: mat1 and mat2 shapes cannot be multipl"));
  EXPECT_THAT(error_of([&] { linear.compute_output_shape({kUnknown, 3}); }), HasSubstr("the input is Float (1, 3)"));
}

TEST(Dropout, ScalesWhatItKeepsAndOnlyInTraining) {
  const Dropout dropout({.rate = 0.5});
  const Tensor x = at::ones({1000});
  EXPECT_TRUE(dropout(x).is_same(x));
  const Tensor y = dropout(x, {.training = true});
  EXPECT_EQ(y.eq(0).logical_or(y.eq(2)).sum().item<int64_t>(), 1000);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.2);
  EXPECT_THAT(error_of([] { Dropout({.rate = 1.5}); }), HasSubstr("it must lie in [0, 1]"));
}

TEST(Flatten, KeepsTheBatchEvenIfItIsEmpty) {
  const Flatten flatten;
  EXPECT_EQ(flatten(at::ones({2, 3, 4})).sizes(), (Shape{2, 12}));
  EXPECT_EQ(flatten(at::ones({0, 3, 4})).sizes(), (Shape{0, 12}));
  EXPECT_EQ(flatten(at::ones({5})).sizes(), (Shape{5, 1}));
  EXPECT_EQ(flatten.compute_output_shape({kUnknown, 3, 4}), (Shape{kUnknown, 12}));
  EXPECT_EQ(flatten.compute_output_shape({kUnknown, kUnknown, 4}), (Shape{kUnknown, kUnknown}));
}

TEST(ReLU, FollowsSlopeThresholdAndMaximum) {
  const ReLU relu({.max_value = 6, .negative_slope = 0.1, .threshold = 1});
  const auto at_x = [&](double x) { return relu(at::full({1}, x)).item<double>(); };
  EXPECT_NEAR(at_x(8), 6, 1e-6);
  EXPECT_NEAR(at_x(3), 3, 1e-6);
  EXPECT_NEAR(at_x(0.5), -0.05, 1e-6);
  EXPECT_NEAR(at_x(-2), -0.3, 1e-6);
}

TEST(Activation, IsAFunctionAndALayer) {
  const Tensor x = at::randn({4, 3});
  EXPECT_TRUE(at::equal(Activation(activations::tanh)(x), x.tanh()));
  EXPECT_TRUE(activations::linear(x).is_same(x));
  EXPECT_TRUE(at::allclose(activations::softmax(x).sum(-1), at::ones({4})));
  constexpr activations::Activation cube{"cube", [](const Tensor& t) { return t.pow(3); }};
  EXPECT_TRUE(at::equal(cube(x), x.pow(3)));
}

// Says what it does, and nothing else.
class Twice : public LayerImpl {
 public:
  explicit Twice(std::string name = "") : LayerImpl("Twice", std::move(name)) {}
  Tensor call(const Tensor& x, const CallOptions&) const override { return at::cat({x, x}, -1); }
};

class Silent : public LayerImpl {
 public:
  Silent() : LayerImpl("Silent", "") {}
};

TEST(LayerImpl, NeedsNothingButCall) {
  const Layer twice(std::make_shared<Twice>());
  EXPECT_EQ(twice(at::zeros({2, 3})).sizes(), (Shape{2, 6}));
  EXPECT_EQ(twice.compute_output_shape({kUnknown, 3}), (Shape{kUnknown, 6}));
  EXPECT_EQ(twice.compute_output_shape({4, kUnknown}), (Shape{4, kUnknown}));
  const Sequential model({twice, Dense({.units = 1})});
  EXPECT_EQ(model(at::zeros({2, 3})).sizes(), (Shape{2, 1}));
}

TEST(LayerImpl, ThatDoesNothingSaysSo) {
  const Layer silent(std::make_shared<Silent>());
  EXPECT_THAT(error_of([&] {
                silent(at::zeros({2, 3}));
              }),
              testing::HasSubstr("silent: the class behind it overrides neither call nor call_all"));
  EXPECT_THAT(error_of([&] { silent.build({kUnknown, 3}); }), testing::HasSubstr("neither call nor call_all"));
}

TEST(LayerImpl, RefusesNamesThatPathsCannotHold) {
  for (const char* name : {"block.1", "block/1"})
    EXPECT_THAT(error_of([&] { Layer(std::make_shared<Twice>(name)); }),
                testing::HasSubstr(std::string("the name \"") + name + "\" has a '.' or '/'"));
}

}  // namespace
}  // namespace tutti::keras::layers
