// Steps of a model's own, and what else may happen in a fit.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/resizing.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::CallOptions;
using layers::Dense;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

FitOptions quiet(int64_t epochs = 1) { return {.epochs = epochs, .verbose = Verbose::silent}; }

std::vector<std::string> names(const History& history) {
  std::vector<std::string> all;
  for (const auto& [name, values] : history.history) all.push_back(name);
  return all;
}

// Brings its output to 0, whatever is compiled; returns what `share` makes of that loss.
class Shrinking : public ModelImpl {
 public:
  using ShareOf = std::function<StepShare(const Tensor& loss)>;
  explicit Shrinking(ShareOf share) : ModelImpl("Shrinking"), share_(std::move(share)) {}
  Tensor call(const Tensor& x, const CallOptions&) const override { return dense_(x); }
  StepShare train_step(const Batch& shard, const GlobalBatch& global) const override {
    const Tensor loss = predictions(shard, {.training = true})[0].tensor.square().sum() / global.size;
    const std::vector<Tensor> variables = trainable_variables();
    sgd_.apply_gradients(gradients(loss, variables), variables);
    return share_(loss.detach());
  }

 private:
  ShareOf share_;
  optimizers::SGD sgd_{{.learning_rate = 0.1}};
  Dense dense_ = add(Dense({.units = 2, .kernel_initializer = initializers::Ones()}));
};

Model shrinking(Shrinking::ShareOf share) { return Model(std::make_shared<Shrinking>(std::move(share))); }

TEST(TrainStep, NeedsNoCompiledLossAndNoLabels) {
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Model model =
        strategy.build([] { return shrinking([](const Tensor& loss) { return StepShare{.losses = {loss}}; }); });
    model.compile({});
    const History history = model.fit(at::ones({8, 3}), Tensor(), quiet(2));
    EXPECT_NEAR(history.history.at("loss")[0], 18, 1e-4);
    EXPECT_LT(history.history.at("loss")[1], 18);
  }
}

TEST(TrainStep, MayNameItsLosses) {
  const Model model = shrinking([](const Tensor& loss) {
    return StepShare{.named_losses = {{"generator", loss}, {"discriminator", loss * 2}}};
  });
  model.compile({});
  const History history = model.fit(at::ones({8, 3}), Tensor(), quiet());
  EXPECT_THAT(names(history), ElementsAre("discriminator", "generator"));
  EXPECT_NEAR(history.history.at("discriminator")[0], 36, 1e-4);
}

TEST(TrainStep, MayReturnNothing) {
  const Model model = shrinking([](const Tensor&) { return StepShare{}; });
  model.compile({.loss = losses::MeanSquaredError(), .metrics = {metrics::MeanAbsoluteError()}});
  EXPECT_TRUE(model.fit(at::ones({8, 3}), Tensor(), quiet()).history.empty());
}

TEST(TrainStep, IsToldWhatItReturnsTooMuch) {
  const auto error_with = [](Shrinking::ShareOf share) {
    const Model model = shrinking(std::move(share));
    model.compile({.loss = losses::MeanSquaredError(), .metrics = {metrics::MeanAbsoluteError()}});
    return error_of([&] { model.fit(at::ones({8, 3}), Tensor(), quiet()); });
  };
  EXPECT_THAT(error_with([](const Tensor& loss) {
                return StepShare{.losses = {loss, loss}};
              }),
              HasSubstr("shrinking.fit: a step returned 2 losses; those compiled are \"loss\". Give others a name"));
  EXPECT_THAT(error_with([](const Tensor& loss) {
                return StepShare{.metrics = {{loss}, {loss}}};
              }),
              HasSubstr("shares of 2 metrics; 1 are compiled"));
  EXPECT_THAT(error_with([](const Tensor& loss) {
                return StepShare{.named_losses = {{"mean_absolute_error", loss}}};
              }),
              HasSubstr("taken by what was compiled"));
}

TEST(TrainStep, WorksOutsideOfFit) {
  const Sequential model({Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  const Batch batch{.x = at::ones({2, 3}), .y = at::ones({2, 1})};
  EXPECT_THAT(error_of([&] { model.model().train_step(batch, {.size = 2}); }), HasSubstr("the model is not built"));
  model.build({kUnknown, 3});
  const StepShare share = model.model().train_step(batch, {.size = 2});
  EXPECT_EQ(share.losses.size(), 1U);
}

// A penalty of the mean square of what passes.
class MeanSquarePenalty : public layers::LayerImpl {
 public:
  MeanSquarePenalty() : LayerImpl("Penalty", "") {}
  Tensor call(const Tensor& x, const CallOptions& options) const override {
    add_loss(options, ReduceOp::mean, x.square().mean());
    return x;
  }
};

TEST(AddLoss, TrainsAloneWithoutLabels) {
  const Sequential model({Dense({.units = 2, .kernel_initializer = initializers::Ones()}),
                          layers::Layer(std::make_shared<MeanSquarePenalty>())});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05})});
  const History history = model.fit(at::ones({8, 3}), Tensor(), quiet(3));
  EXPECT_NEAR(history.history.at("loss")[0], 9, 1e-4);
  EXPECT_LT(history.history.at("loss")[2], 9);
  EXPECT_LT(model.evaluate(at::ones({8, 3}), Tensor(), {.verbose = Verbose::silent}).at("loss"), 9);
}

TEST(Fit, SaysWhatIsMissingForALoss) {
  const Sequential model({Dense({.units = 2})});
  model.compile({.optimizer = optimizers::SGD()});
  EXPECT_THAT(error_of([&] { model.fit(at::ones({8, 3}), Tensor(), quiet()); }), HasSubstr("by add_loss"));
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  EXPECT_THAT(error_of([&] { model.fit(at::ones({8, 3}), Tensor(), quiet()); }), HasSubstr("0 labels for 1 outputs"));
}

Sequential absolute_line() {
  const Sequential model({Dense({.units = 1, .use_bias = false, .kernel_initializer = initializers::Ones()})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.0}),
                 .loss = losses::MeanSquaredError(),
                 .metrics = {metrics::MeanAbsoluteError({.name = "mae"})}});
  return model;
}

callbacks::LambdaCallback after_batch(int64_t wanted, const std::function<void()>& act) {
  return callbacks::LambdaCallback(
      {.on_train_batch_end = [=](callbacks::TrainingState&, int64_t batch, const RunningLogs&) {
        if (batch == wanted) act();
      }});
}

TEST(Fit, GoesOnWithWhatACallbackCompiles) {
  const Sequential model = absolute_line();
  const Tensor x = at::tensor({1.F, 2.F, 3.F, 4.F}).unsqueeze(1), y = at::zeros({4, 1});
  const auto compile = [&] {
    model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.0}), .loss = losses::MeanAbsoluteError()});
  };
  FitOptions options = quiet();
  options.batch_size = 1;
  options.shuffle = false;
  options.callbacks = {after_batch(1, compile)};
  const History history = model.fit(x, y, options);
  EXPECT_THAT(names(history), ElementsAre("loss"));
  EXPECT_NEAR(history.history.at("loss")[0], 3.5, 1e-6);  // of the batches after it
}

TEST(Fit, KeepsItsMetricsWhenACallbackEvaluates) {
  const Sequential model = absolute_line();
  const Tensor x = at::tensor({1.F, 2.F, 3.F, 4.F}).unsqueeze(1), y = at::zeros({4, 1});
  FitOptions options = quiet();
  options.batch_size = 1;
  options.shuffle = false;
  options.callbacks = {after_batch(1, [&] { model.evaluate(x * 100, y, {.verbose = Verbose::silent}); })};
  EXPECT_NEAR(model.fit(x, y, options).history.at("mae")[0], 2.5, 1e-6);
}

TEST(Fit, ValidatesInBatchesOfAnotherSize) {
  const Sequential model = absolute_line();
  int64_t num_batches = 0;
  FitOptions options = quiet();
  options.batch_size = 8;
  options.validation_split = 0.5;
  options.callbacks = {callbacks::LambdaCallback(
      {.on_test_batch_end = [&](const Model&, int64_t, const RunningLogs&) { ++num_batches; }})};
  model.fit(at::ones({16, 1}), at::ones({16, 1}), options);
  EXPECT_EQ(num_batches, 1);
  options.validation_batch_size = 2;
  model.fit(at::ones({16, 1}), at::ones({16, 1}), options);
  EXPECT_EQ(num_batches, 1 + 4);
}

TEST(Fit, TakesAnEmptyShardThroughResizing) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Sequential model = strategy.build([] {
    return Sequential({layers::Resizing({.height = 4, .width = 4}), layers::Flatten(), Dense({.units = 1})});
  });
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  FitOptions options = quiet();
  options.batch_size = 4;
  EXPECT_EQ(error_of([&] { model.fit(at::rand({9, 6, 6, 1}), at::rand({9, 1}), options); }), "no error");
}

TEST(Metrics, OfOneHandleAreKeptApart) {
  const metrics::MeanAbsoluteError mae({.name = "mae"});
  const Sequential model({Dense({.units = 1, .kernel_initializer = initializers::Zeros()})});
  model.compile({.loss = losses::MeanSquaredError(), .metrics = {mae}, .weighted_metrics = {mae}});
  const Logs logs = model.evaluate(at::ones({4, 3}), at::tensor({1.F, 1.F, 3.F, 3.F}).view({4, 1}),
                                   {.verbose = Verbose::silent, .sample_weight = at::tensor({1.F, 1.F, 0.F, 0.F})});
  EXPECT_NEAR(logs.at("mae"), 2, 1e-6);
  EXPECT_NEAR(logs.at("weighted_mae"), 1, 1e-6);
}

// The median, which is no function of a sum: it keeps all errors.
metrics::Metric median_error() {
  return metrics::Metric(
      "median_error", metrics::Metric::States{at::empty({0})},
      [](const metrics::Metric::States& state, const Tensor& y_true, const Tensor& y_pred, const Tensor&) {
        return metrics::Metric::States{at::cat({state[0], (y_true - y_pred).abs().flatten()})};
      },
      [](const metrics::Metric::States& state) { return state[0].median(); });
}

TEST(Metrics, MayHaveAStateOfTheirOwn) {
  const Tensor x = at::tensor({1.F, 2.F, 3.F, 4.F, 10.F}).unsqueeze(1), y = at::zeros({5, 1});
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] {
      return Sequential({Dense({.units = 1, .use_bias = false, .kernel_initializer = initializers::Ones()})});
    });
    model.compile({.loss = losses::MeanSquaredError(), .metrics = {median_error()}});
    const EvaluateOptions options{.batch_size = 2, .verbose = Verbose::silent};
    EXPECT_EQ(model.evaluate(x, y, options).at("median_error"), 3) << replicas;
    EXPECT_EQ(model.evaluate(x, y, options).at("median_error"), 3) << "begins anew";
  }
  const metrics::Metric metric = median_error();
  metric.update_state(y, x);
  EXPECT_EQ(metric.result().item<double>(), 3);
  metric.reset_state();
  metric.update_state(y.slice(0, 0, 1), x.slice(0, 0, 1));
  EXPECT_EQ(metric.result().item<double>(), 1);
}

}  // namespace
}  // namespace tutti::keras
