#include "tutti/keras/functional.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <tuple>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/model.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::Concatenate;
using layers::Dense;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Functional, IsTheGraphOfItsLayers) {
  const Dense shared({.units = 4, .name = "shared"}), head({.units = 2, .name = "head"});
  const SymbolicTensor a = Input({.shape = {3}, .name = "a"}), b = Input({.shape = {3}, .name = "b"});
  const SymbolicTensor joined = Concatenate()({shared(a), shared(b)});
  EXPECT_EQ(joined.shape(), (Shape{kUnknown, 8}));
  const Model model({.inputs = {a, b}, .outputs = {head(joined), joined}});
  const Tensor x = at::randn({5, 3}), y = at::randn({5, 3});
  const Tensor expected = at::cat({shared(x), shared(y)}, 1);
  const std::vector<Tensor> outputs = model.outputs({x, y});
  EXPECT_TRUE(at::equal(outputs[1], expected));
  EXPECT_TRUE(at::equal(outputs[0], head(expected)));
  EXPECT_EQ(model.weights().size(), 4U);  // the shared layer's once
  EXPECT_EQ(model.weights()[0].name, "shared/kernel");
}

TEST(Functional, NestsModels) {
  const Sequential inner({Dense({.units = 4}), Dense({.units = 3})}, "inner");
  const SymbolicTensor x = Input({.shape = {2}});
  const Model model({.inputs = {x}, .outputs = {Dense({.units = 1})(inner(x))}});
  EXPECT_EQ(model.weights().size(), 6U);
  EXPECT_EQ(model.weights()[0].name, "inner/dense/kernel");
  const SymbolicTensor z = Input({.shape = {2}});
  const Model outer({.inputs = {z}, .outputs = {model(z)}});
  const Tensor value = at::randn({3, 2});
  EXPECT_TRUE(at::equal(outer(value), model(value)));
}

TEST(Functional, TrainsSeveralInputsAndOutputsUnderAnyNumberOfReplicas) {
  const Tensor u = at::randn({10, 3}), v = at::randn({10, 2}), s = at::randn({10, 1}), t = at::randn({10, 2});
  std::vector<Tensor> initial;
  const auto train = [&](Strategy& strategy) {
    const Model model = strategy.build([] {
      const SymbolicTensor a = Input({.shape = {3}, .name = "u"}), b = Input({.shape = {2}, .name = "v"});
      const SymbolicTensor hidden = Dense({.units = 4, .activation = activations::tanh})(Concatenate()({a, b}));
      Model built({.inputs = {a, b},
                   .outputs = {Dense({.units = 1, .name = "s"})(hidden), Dense({.units = 2, .name = "t"})(hidden)}});
      built.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}),
                     .loss = {{"s", losses::MeanSquaredError()}, {"t", losses::MeanAbsoluteError()}},
                     .loss_weights = {1.0, 0.5},
                     .metrics = {{"s", {metrics::MeanAbsoluteError({.name = "mae"})}}}});
      return built;
    });
    if (initial.empty()) initial = model.get_weights();
    model.set_weights(initial);
    const History history =
        model.fit({u, v}, {s, t}, {.batch_size = 4, .epochs = 2, .verbose = Verbose::silent, .shuffle = false});
    EXPECT_EQ(history.history.size(), 4U);
    EXPECT_NEAR(history.history.at("loss")[1], history.history.at("s_loss")[1] + 0.5 * history.history.at("t_loss")[1],
                1e-6);
    EXPECT_EQ(model.predict_outputs({u, v})[1].sizes(), (Shape{10, 2}));
    EXPECT_THAT(error_of([&] {
                  (void)model.predict({u, v});
                }),
                HasSubstr("2 outputs; ask for them by predict_outputs"));
    return std::pair(model.get_weights(), history.history.at("s_mae")[1]);
  };
  const auto one = train(get_strategy());
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const auto many = train(strategy);
    for (size_t i = 0; i < one.first.size(); ++i)
      EXPECT_TRUE(at::allclose(many.first[i], one.first[i], 1e-4, 1e-5)) << replicas << " replicas, weight " << i;
    EXPECT_NEAR(many.second, one.second, 1e-5);
  }
}

TEST(Functional, TakesMapsByTheNamesOfInputsAndOutputs) {
  const SymbolicTensor b = Input({.shape = {1}, .name = "b"}), a = Input({.shape = {1}, .name = "a"});
  const Model model({.inputs = {b, a}, .outputs = {layers::Subtract({.name = "difference"})({b, a})}});
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  using Named = std::map<std::string, Tensor>;
  const Named x{{"a", at::ones({2, 1})}, {"b", at::ones({2, 1}) * 3}};
  EXPECT_TRUE(at::equal(model.predict(x), at::ones({2, 1}) * 2));
  const std::vector batches{std::tuple(x, Named{{"difference", at::ones({2, 1})}})};
  EXPECT_NEAR(model.evaluate(batches, {.verbose = Verbose::silent}).at("loss"), 1, 1e-6);
  EXPECT_THAT(error_of([&] {
                (void)model.predict(Named{{"a", at::ones({2, 1})}});
              }),
              HasSubstr("lacks the input \"b\"; it has \"a\""));
  EXPECT_THAT(error_of([&] {
                (void)model.predict(Named{{"c", at::ones({2, 1})}});
              }),
              HasSubstr("has the input \"c\"; the model's inputs are \"b\", \"a\""));
}

TEST(Functional, SummaryShowsWhatIsConnected) {
  const SymbolicTensor a = Input({.shape = {3}, .name = "a"});
  const Dense dense({.units = 3});
  const Model model({.inputs = {a}, .outputs = {layers::Add()({a, dense(a)})}, .name = "residual"});
  std::ostringstream out;
  model.summary(out);
  EXPECT_EQ(out.str(), R"(Model: "residual"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ a (InputLayer)      │ (None, 3)         │          0 │ -                 │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense (Dense)       │ (None, 3)         │         12 │ a[0][0]           │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ add (Add)           │ (None, 3)         │          0 │ a[0][0]           │
│                     │                   │            │ dense[0][0]       │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 12 (48.00 B)
 Trainable params: 12 (48.00 B)
 Non-trainable params: 0 (0.00 B)
)");
}

TEST(Functional, RefusesAGraphThatIsNoModel) {
  const SymbolicTensor a = Input({.shape = {3}, .name = "a"}), b = Input({.shape = {4}, .name = "b"});
  EXPECT_THAT(
      error_of([&] {
        layers::Add()({a, b});
      }),
      HasSubstr(
          "(None, 3) and (None, 4), which do not fit each other (called on the output of a (None, 3), b (None, 4))"));
  const SymbolicTensor both = Concatenate()({a, b});
  EXPECT_THAT(error_of([&] { Model({.inputs = {a}, .outputs = {both}}); }),
              HasSubstr("depends on the input b, which is not listed"));
  EXPECT_THAT(error_of([&] {
                Model({.inputs = {a, b, a}, .outputs = {both}});
              }),
              HasSubstr("the input a is listed twice"));
  const Model model({.inputs = {a, b}, .outputs = {both}});
  EXPECT_THAT(error_of([&] {
                model({at::zeros({2, 3}), at::zeros({2, 3})});
              }),
              HasSubstr("b: the input has shape (2, 3); the model takes (None, 4)"));
  EXPECT_THAT(error_of([&] { model(at::zeros({2, 3})); }), HasSubstr("takes 2 inputs, not 1"));
}

TEST(Compile, RefusesWhatDoesNotFitTheOutputs) {
  const SymbolicTensor a = Input({.shape = {1}});
  const Model model(
      {.inputs = {a}, .outputs = {Dense({.units = 1, .name = "p"})(a), Dense({.units = 1, .name = "q"})(a)}});
  const Tensor x = at::ones({2, 1});
  const auto error_with = [&](CompileOptions options) {
    options.optimizer = optimizers::SGD();
    return error_of([&] { model.compile(options); });
  };
  const losses::MeanSquaredError mse;
  EXPECT_THAT(error_with({.loss = {mse, mse, mse}}), HasSubstr("3 losses for 2 outputs: \"p\", \"q\""));
  EXPECT_THAT(error_with({.loss = {{"r", mse}}}), HasSubstr("names the output \"r\"; the outputs are \"p\", \"q\""));
  EXPECT_THAT(error_with({.loss = mse, .metrics = {metrics::MeanAbsoluteError()}}), HasSubstr("by their names"));
  EXPECT_EQ(error_with({.loss = mse}), "no error");
  EXPECT_NE(error_with({.loss = {{"r", mse}}}), "no error");  // what was compiled before stays
  EXPECT_THAT(error_of([&] { model.fit({x}, {x}, {.verbose = Verbose::silent}); }),
              HasSubstr("1 labels for 2 outputs"));
}

TEST(Sequential, IsBuiltByAnInputLayer) {
  const Sequential model({layers::InputLayer({.shape = {3}}), Dense({.units = 2})});
  EXPECT_TRUE(model.built());
  EXPECT_EQ(model.weights()[0].value.sizes(), (Shape{3, 2}));
  EXPECT_THAT(error_of([&] { model(at::zeros({1, 4})); }), HasSubstr("the model takes (None, 3)"));
}

}  // namespace
}  // namespace tutti::keras
