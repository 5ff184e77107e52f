#include "tutti/keras/training_loops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sequential line(double learning_rate = 0.1, int64_t steps_per_execution = 1) {
  const Sequential model({layers::Dense({.units = 1, .use_bias = false, .kernel_initializer = initializers::Ones()})},
                         "line");
  model.compile({.optimizer = optimizers::SGD({.learning_rate = learning_rate}),
                 .loss = losses::MeanSquaredError(),
                 .weighted_metrics = {metrics::MeanAbsoluteError({.name = "mae"})},
                 .steps_per_execution = steps_per_execution});
  return model;
}

data::Dataset<std::tuple<Tensor, Tensor>> batches(int64_t count) {
  return data::from_tensor_slices(at::ones({2 * count, 1}), at::zeros({2 * count, 1})).batch(2);
}

TEST(Evaluate, NamesMetricsOfOneNameAsKerasDoes) {
  const Sequential model({layers::Dense({.units = 1})});
  model.compile(
      {.loss = losses::MeanSquaredError(),
       .metrics = {metrics::MeanAbsoluteError({.name = "mae"}), metrics::MeanSquaredError({.name = "mae"})},
       .weighted_metrics = {metrics::MeanAbsoluteError({.name = "mae"}), metrics::MeanSquaredError({.name = "mae"})}});
  const Logs logs = model.evaluate(at::ones({2, 1}), at::zeros({2, 1}), {.verbose = Verbose::silent});
  std::vector<std::string> names;
  for (const auto& [name, value] : logs) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("loss", "mae", "mae_1", "weighted_mae", "weighted_mae_1"));
}

// Writes down what is called.
class Recorder : public callbacks::CallbackImpl {
 public:
  void on_train_begin(callbacks::TrainingState& state) override { note("train begin", state.steps); }
  void on_train_end(callbacks::TrainingState&, const Logs& logs) override {
    note("train end", static_cast<int64_t>(logs.size()));
  }
  void on_epoch_begin(callbacks::TrainingState&, int64_t epoch) override { note("epoch begin", epoch); }
  void on_epoch_end(callbacks::TrainingState& state, int64_t epoch, Logs& logs) override {
    note("epoch end", epoch);
    logs["extra"] = 5;
    if (epoch == stop_after_epoch) state.stop_training = true;
  }
  void on_train_batch_begin(callbacks::TrainingState&, int64_t batch) override { note("batch begin", batch); }
  void on_train_batch_end(callbacks::TrainingState& state, int64_t batch, const RunningLogs& running) override {
    note("batch end", batch);
    losses.push_back(running.logs().at("loss"));
    if (batch == stop_after_batch) state.stop_training = true;
  }
  void on_test_begin(const Model&) override { note("test begin", 0); }
  void on_test_end(const Model&, const Logs&) override { note("test end", 0); }
  void on_predict_batch_end(const Model&, int64_t batch) override { note("predicted", batch); }

  std::vector<std::string> calls;
  std::vector<double> losses;
  int64_t stop_after_epoch = -1, stop_after_batch = -1;

 private:
  void note(const char* what, int64_t number) { calls.push_back(std::string(what) + ' ' + std::to_string(number)); }
};

TEST(Fit, CallsItsCallbacksInOrder) {
  const auto recorder = std::make_shared<Recorder>();
  const History history = line().fit(
      batches(2), {.epochs = 1, .verbose = Verbose::silent, .callbacks = {recorder}, .validation_data = batches(1)});
  EXPECT_THAT(recorder->calls,
              ElementsAre("train begin 2", "epoch begin 0", "batch begin 0", "batch end 0", "batch begin 1",
                          "batch end 1", "test begin 0", "test end 0", "epoch end 0", "train end 5"));
  EXPECT_THAT(history.history.at("extra"), ElementsAre(5));
  EXPECT_NEAR(recorder->losses[0], 1, 1e-6);
  EXPECT_NEAR(recorder->losses[1], (1 + 0.64) / 2, 1e-6);
}

TEST(Fit, ValidatesOnTheSameBatchesAfterEachEpoch) {
  const Tensor x = at::arange(40, at::kFloat).view({40, 1}), y = at::zeros({40, 1});
  const History history = line(0).fit(batches(1), {.epochs = 3,
                                                   .verbose = Verbose::silent,
                                                   .validation_data = data::from_tensor_slices(x, y).batch(5),
                                                   .validation_steps = 2});
  EXPECT_THAT(history.history.at("val_mae"), ElementsAre(4.5, 4.5, 4.5));
}

TEST(Fit, LooksAtCallbacksOnceInSeveralSteps) {
  const auto recorder = std::make_shared<Recorder>();
  line(0.1, /*steps_per_execution=*/2).fit(batches(5), {.verbose = Verbose::silent, .callbacks = {recorder}});
  EXPECT_THAT(recorder->calls,
              ElementsAre("train begin 5", "epoch begin 0", "batch begin 0", "batch end 1", "batch begin 2",
                          "batch end 3", "batch begin 4", "batch end 4", "epoch end 0", "train end 3"));
}

TEST(Fit, StopsWhereACallbackSaysSo) {
  const auto after_epoch = std::make_shared<Recorder>();
  after_epoch->stop_after_epoch = 1;
  EXPECT_EQ(line().fit(batches(2), {.epochs = 9, .verbose = Verbose::silent, .callbacks = {after_epoch}}).epoch.size(),
            2U);
  const auto after_batch = std::make_shared<Recorder>();
  after_batch->stop_after_batch = 1;
  EXPECT_EQ(line().fit(batches(4), {.epochs = 9, .verbose = Verbose::silent, .callbacks = {after_batch}}).epoch.size(),
            1U);
  EXPECT_EQ(after_batch->losses.size(), 2U);
}

TEST(Fit, GoesOnInTheDataWhereStepsPerEpochEnded) {
  const Sequential model = line(0);
  const auto numbers = data::from_tensor_slices(at::arange(6, at::kFloat).view({6, 1}), at::zeros({6, 1})).batch(1);
  const History history = model.fit(numbers, {.epochs = 2, .verbose = Verbose::silent, .steps_per_epoch = 3});
  EXPECT_NEAR(history.history.at("loss")[0], (0 + 1 + 4) / 3.0, 1e-6);
  EXPECT_NEAR(history.history.at("loss")[1], (9 + 16 + 25) / 3.0, 1e-6);
}

TEST(Fit, BeginsTheDataAnewWhereAnEpochEndedWithThem) {
  const CollectedWarnings warnings;
  const Tensor x = at::arange(6, at::kFloat).view({6, 1}), y = at::zeros({6, 1});
  const auto dataset = data::from_tensor_slices(x, y).batch(2);
  const Batches of_tensors = Batches::from_tensors({x, y}, {.batch_size = 2});
  const std::vector<std::tuple<Tensor, Tensor>> range{{x, y}, {x, y}, {x, y}};
  for (const Batches& batches : {of_tensors, Batches(dataset), Batches(dataset.take(3)), Batches(range)})
    for (const int64_t steps_per_execution : {1, 2}) {
      const History history =
          line(0, steps_per_execution).fit(batches, {.epochs = 3, .verbose = Verbose::silent, .steps_per_epoch = 3});
      EXPECT_THAT(history.history.at("loss"), testing::Each(testing::DoubleNear(55 / 6.0, 1e-5)));
      EXPECT_EQ(history.epoch.size(), 3U);
    }
  EXPECT_THAT(warnings.lines(), testing::IsEmpty());
}

TEST(Fit, RefusesAPassWithoutABatchAfterOthers) {
  int passes = 0;
  const auto once = data::from_tensor_slices(at::ones({2, 1}), at::zeros({2, 1})).batch(1);
  const Batches batches =
      Batches::of_pipelines([&](const data::InputContext&) { return Batches(once.take(++passes == 1 ? 2 : 0)); });
  EXPECT_THAT(error_of([&] { line(0).fit(batches, {.epochs = 2, .verbose = Verbose::silent, .steps_per_epoch = 2}); }),
              HasSubstr("line: the dataset has no batch"));
  EXPECT_EQ(passes, 2);
}

TEST(Fit, WarnsInKerassWordsWhenTheDataEndEarly) {
  const CollectedWarnings warnings;
  const History history = line(0).fit(batches(2), {.epochs = 2, .verbose = Verbose::silent, .steps_per_epoch = 3});
  EXPECT_THAT(warnings.lines(),
              Contains(HasSubstr("Your input ran out of data; interrupting training. Make sure that your dataset or "
                                 "generator can generate at least `steps_per_epoch * epochs` batches.")));
  EXPECT_EQ(history.epoch.size(), 2U);  // the next epoch begins anew
}

TEST(Fit, ValidatesNowAndThen) {
  const History history = line().fit(batches(1), {.epochs = 4,
                                                  .verbose = Verbose::silent,
                                                  .validation_data = batches(3),
                                                  .validation_steps = 1,
                                                  .validation_freq = 2});
  EXPECT_EQ(history.history.at("val_loss").size(), 2U);
}

TEST(Fit, KeepsTheLastSamplesForValidation) {
  const Tensor x = at::arange(10, at::kFloat).view({10, 1});
  const History history = line(0).fit(x, at::zeros({10, 1}), {.verbose = Verbose::silent, .validation_split = 0.2});
  EXPECT_NEAR(history.history.at("loss")[0], 140.0 / 8, 1e-4);
  EXPECT_NEAR(history.history.at("val_loss")[0], (64 + 81) / 2.0, 1e-4);
  EXPECT_THAT(error_of([&] { line().fit(x, x, {.validation_split = 1}); }), HasSubstr("leaves none to train on"));
}

TEST(Fit, WarnsOfALossThatIsNoNumber) {
  const CollectedWarnings warnings;
  line(1e30).fit(batches(4), {.verbose = Verbose::silent});
  EXPECT_THAT(warnings.lines(), Contains(HasSubstr("line.fit: the loss of epoch 1 is")));
}

TEST(Fit, WarnsOfAModelThatCannotLearn) {
  const CollectedWarnings warnings;
  const Sequential model = line();
  model.build({kUnknown, 1});
  model.set_trainable(false);
  const History history = model.fit(batches(2), {.epochs = 2, .verbose = Verbose::silent});
  EXPECT_THAT(warnings.lines(), ElementsAre("line.fit: the model does not have any trainable weights"));
  EXPECT_THAT(history.history.at("loss"), ElementsAre(1, 1));
}

TEST(Fit, WeighsTheMetricsThatAreToBe) {
  const Sequential model = line(0);
  const Logs logs = model.evaluate(at::arange(2, at::kFloat).view({2, 1}), at::zeros({2, 1}),
                                   {.verbose = Verbose::silent, .sample_weight = at::arange(1, 3, at::kFloat)});
  EXPECT_NEAR(logs.at("mae"), 2.0 / 3, 1e-6);
}

TEST(OnBatch, IsOneStep) {
  const Sequential model = line();
  const Batch batch{at::ones({2, 1}), at::zeros({2, 1})};
  EXPECT_NEAR(model.train_on_batch(batch).at("loss"), 1, 1e-6);
  EXPECT_NEAR(model.test_on_batch(batch).at("loss"), 0.64, 1e-6);
  EXPECT_NEAR(model.predict_on_batch(at::ones({1, 1}))[0].item<double>(), 0.8, 1e-6);
}

TEST(Predict, TellsItsCallbacks) {
  const auto recorder = std::make_shared<Recorder>();
  (void)line().predict(at::ones({5, 1}), {.batch_size = 2, .callbacks = {recorder}});
  EXPECT_THAT(recorder->calls, ElementsAre("predicted 0", "predicted 1", "predicted 2"));
}

TEST(Weights, AreSavedAndLoadedByName) {
  const TemporaryFolder folder;
  const Sequential model = line(), other = line();
  model.build({kUnknown, 1});
  other.build({kUnknown, 1});
  model.set_weights({at::ones({1, 1}) * 7});
  model.save_weights(folder.path() / "w.safetensors");
  other.load_weights(folder.path() / "w.safetensors");
  EXPECT_EQ(other.get_weights()[0].item<double>(), 7);
  EXPECT_THAT(error_of([&] { line().save_weights(folder.path() / "v.safetensors"); }), HasSubstr("has no weights yet"));
}

}  // namespace
}  // namespace tutti::keras
