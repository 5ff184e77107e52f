// Optimizers, losses and metrics by their names in compile.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/activations.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ByName, CompilesAModel) {
  const Sequential model({Dense({.units = 1})});
  model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae", "RootMeanSquaredError"}});
  const History history = model.fit(at::rand({8, 3}), at::rand({8, 1}), {.verbose = Verbose::silent});
  EXPECT_EQ(model.model().optimizer().name(), "adam");
  EXPECT_TRUE(history.history.contains("mae"));
  EXPECT_TRUE(history.history.contains("RootMeanSquaredError"));
}

TEST(ByName, FindsActivations) {
  const Tensor x = at::rand({2, 3}) - 0.5;
  for (const std::string name : {"relu", "swish", "log_softmax", "linear", "leaky_relu"})
    EXPECT_TRUE(at::equal(activations::Activation(name)(x), name == "relu"          ? x.relu()
                                                            : name == "swish"       ? activations::silu(x)
                                                            : name == "log_softmax" ? x.log_softmax(-1)
                                                            : name == "linear"      ? x
                                                                                    : activations::leaky_relu(x)));
  const Dense dense({.units = 4, .activation = "relu"});
  EXPECT_GE(dense(x).min().item<float>(), 0);
  EXPECT_THAT(error_of([] { Dense({.units = 4, .activation = "rellu"}); }),
              AllOf(HasSubstr("there is no activation \"rellu\"; there are celu, elu,"), HasSubstr(", relu,")));
}

TEST(ByName, CompilesAModelOfSeveralOutputs) {
  const SymbolicTensor in = Input({.shape = {3}});
  const Model model(
      {.inputs = {in}, .outputs = {Dense({.units = 1, .name = "a"})(in), Dense({.units = 1, .name = "b"})(in)}});
  const Tensor x = at::rand({8, 3}), y = at::rand({8, 1});
  const auto names = [&](const CompileOptions& options) {
    model.compile(options);
    std::vector<std::string> all;
    for (const auto& [name, value] : model.evaluate(x, {y, y}, {.verbose = Verbose::silent})) all.push_back(name);
    return all;
  };
  EXPECT_THAT(names({.loss = {"mse", "mae"}}), testing::ElementsAre("a_loss", "b_loss", "loss"));
  EXPECT_THAT(names({.loss = {{"a", "mse"}, {"b", "huber"}}, .metrics = {{"a", {"mae", "mse"}}}}),
              testing::ElementsAre("a_loss", "a_mae", "a_mse", "b_loss", "loss"));
}

TEST(ByName, AccuracyAndCrossentropyGoByTheShapes) {
  const Tensor classes = at::randint(3, {8}), scores = at::rand({8, 3}).softmax(-1), score = at::rand({8, 1});
  const Tensor hot = at::one_hot(classes, 3).to(at::kFloat), answers = at::randint(2, {8, 1});
  const auto same_metric = [](const metrics::Metric& other, const Tensor& y, const Tensor& p) {
    const metrics::Metric accuracy("accuracy");
    accuracy.update_state(y, p);
    other.update_state(y, p);
    EXPECT_EQ(accuracy.result().item<double>(), other.result().item<double>());
  };
  same_metric(metrics::SparseCategoricalAccuracy(), classes, scores);
  same_metric(metrics::SparseCategoricalAccuracy(), classes.unsqueeze(1), scores);
  same_metric(metrics::CategoricalAccuracy(), hot, scores);
  same_metric(metrics::BinaryAccuracy(), answers, score);
  const losses::Loss crossentropy = "crossentropy";
  const auto same_loss = [&](const losses::Loss& other, const Tensor& y, const Tensor& p) {
    EXPECT_NEAR(crossentropy(y, p).item<double>(), other(y, p).item<double>(), 1e-6);
  };
  same_loss(losses::SparseCategoricalCrossentropy(), classes, scores);
  same_loss(losses::CategoricalCrossentropy(), hot, scores);
  same_loss(losses::BinaryCrossentropy(), answers, score);
}

TEST(ByName, SaysWhatThereIs) {
  EXPECT_THAT(error_of([] { optimizers::Optimizer("adamm"); }),
              HasSubstr("there is no optimizer \"adamm\"; there are"));
  EXPECT_THAT(error_of([] { losses::Loss("msse"); }), HasSubstr("there is no loss \"msse\"; there are"));
  EXPECT_THAT(error_of([] { metrics::Metric("accuracyy"); }), HasSubstr("there is no metric \"accuracyy\"; there are"));
  EXPECT_EQ(optimizers::Optimizer("RMSprop").name(), "rmsprop");
}

}  // namespace
}  // namespace tutti::keras
