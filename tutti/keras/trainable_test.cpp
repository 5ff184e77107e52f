// What is frozen, and what is shared.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/time_distributed.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using ::testing::HasSubstr;

FitOptions silently() { return {.verbose = Verbose::silent}; }

TEST(Trainable, HoldsOfWeightsThatAreMadeLater) {
  const auto frozen = [](const layers::Layer& layer) {
    layer.set_trainable(false);
    return layer;
  };
  const auto trained_in_a_model = [](const layers::Layer& layer, const Shape& shape) {
    const Sequential model({layer, Dense({.units = 1})});
    model.build(shape);
    return model.trainable_variables().size();
  };
  EXPECT_EQ(trained_in_a_model(frozen(layers::Bidirectional(layers::GRU({.units = 2}))), {kUnknown, 4, 3}), 2U);
  EXPECT_EQ(trained_in_a_model(frozen(layers::TimeDistributed(Dense({.units = 2}))), {kUnknown, 4, 3}), 2U);
  EXPECT_EQ(trained_in_a_model(frozen(Sequential({Dense({.units = 4}), Dense({.units = 4})})), {kUnknown, 3}), 2U);
}

TEST(Trainable, ThawsALayerOfAFrozenModelBeforeTheyAreBuilt) {
  const Dense first({.units = 4}), second({.units = 4});
  const Sequential base({first, second});
  base.set_trainable(false);
  second.set_trainable(true);
  const Sequential model({base, Dense({.units = 1})});
  model.build({kUnknown, 3});
  EXPECT_EQ(model.trainable_variables().size(), 4U);
  EXPECT_TRUE(base.trainable_variables().empty());  // as in Keras
}

TEST(Trainable, AFrozenLayerKeepsItsWeightsInFit) {
  const layers::Bidirectional frozen(layers::GRU({.units = 2}));
  frozen.set_trainable(false);
  const Sequential model({frozen, Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.5}), .loss = losses::MeanSquaredError()});
  model.build({kUnknown, 4, 3});
  const std::vector<Tensor> before = frozen.get_weights();
  model.fit(at::rand({8, 4, 3}), at::rand({8, 1}), silently());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(frozen.get_weights()[i], before[i])) << i;
}

TEST(Trainable, AFrozenLayerHasNoPenaltyAndNoConstraint) {
  const Dense frozen({.units = 2,
                      .kernel_initializer = initializers::Constant(5),
                      .kernel_regularizer = regularizers::L2(0.1),
                      .kernel_constraint = constraints::MaxNorm({.max_value = 1})});
  const Sequential model({frozen, Dense({.units = 1})});
  model.build({kUnknown, 3});
  frozen.set_trainable(false);
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  EXPECT_EQ(model.evaluate(at::zeros({4, 3}), at::zeros({4, 1}), {.verbose = Verbose::silent}).at("loss"), 0);
  model.fit(at::rand({32, 3}), at::zeros({32, 1}), silently());
  EXPECT_TRUE(frozen.get_weights()[0].eq(5).all().item<bool>());
}

TEST(Trainable, SummaryCountsWhatIsFrozen) {
  const Dense frozen({.units = 4});
  const Sequential model({frozen, Dense({.units = 1})});
  model.build({kUnknown, 3});
  frozen.set_trainable(false);
  std::ostringstream out;
  model.summary(out);
  EXPECT_THAT(out.str(), HasSubstr("Trainable params: 5 "));
  EXPECT_THAT(out.str(), HasSubstr("Non-trainable params: 16 "));
}

TEST(Trainable, AnErrorOfThawedWeightsNamesTheWayOut) {
  const Dense frozen({.units = 4});
  const Sequential model({frozen, Dense({.units = 1})});
  model.build({kUnknown, 3});
  frozen.set_trainable(false);
  model.compile({.optimizer = optimizers::Adam(), .loss = losses::MeanSquaredError()});
  const Tensor x = at::rand({8, 3}), y = at::rand({8, 1});
  model.fit(x, y, silently());
  frozen.set_trainable(true);
  EXPECT_THAT(error_of([&] { model.fit(x, y, silently()); }), HasSubstr("need a new optimizer: compile with one"));
}

TEST(SharedLayers, AreListedOnceWhateverTheWayToThem) {
  const SymbolicTensor steps = Input({.shape = {4, 3}}), one = Input({.shape = {3}});
  const Dense dense({.units = 2, .kernel_regularizer = regularizers::L2(0.1)});
  const Model model(
      {.inputs = {steps, one},
       .outputs = {layers::Concatenate()({layers::Flatten()(layers::TimeDistributed(dense)(steps)), dense(one)})}});
  EXPECT_EQ(model.weights().size(), 2U);
  EXPECT_EQ(model.losses().size(), 1U);
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  EXPECT_EQ(error_of([&] {
              model.fit({at::rand({8, 4, 3}), at::rand({8, 3})}, at::rand({8, 10}), silently());
            }),
            "no error");
}

TEST(SharedLayers, AreListedOnceInNestedModels) {
  const SymbolicTensor in = Input({.shape = {3}}), x = Input({.shape = {3}});
  const Dense dense({.units = 3, .kernel_regularizer = regularizers::L2(0.1)});
  const Model inner({.inputs = {in}, .outputs = {layers::Activation(activations::relu)(dense(in))}});
  const Model model({.inputs = {x}, .outputs = {layers::Add()({inner(x), dense(x)})}});
  EXPECT_EQ(model.weights().size(), 2U);
  EXPECT_EQ(model.losses().size(), 1U);
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  EXPECT_EQ(error_of([&] { model.fit(at::rand({8, 3}), at::rand({8, 3}), silently()); }), "no error");
}

}  // namespace
}  // namespace tutti::keras
