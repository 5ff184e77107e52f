// EarlyStopping and the monitor behind it, and TerminateOnNaN: what ends a training.
#include "tutti/keras/callbacks/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"
#include "tests/support/scripted_training.h"
#include "tutti/keras/callbacks/terminate_on_nan.h"

namespace tutti::keras {
namespace {

using callbacks::EarlyStopping;
using callbacks::MonitorMode;
using callbacks::TerminateOnNaN;
using ::testing::HasSubstr;

constexpr int64_t kMaxEpochs = 6;

// After how many epochs training ends.
size_t epochs_until_stop(const EarlyStopping& stopping, std::vector<double> values,
                         const std::string& name = "val_loss") {
  values.resize(kMaxEpochs, values.back());
  return train(line(0), kMaxEpochs, {scripted(name, values), stopping}).history.epoch.size();
}

TEST(EarlyStopping, StopsWhenPatienceEnds) {
  const EarlyStopping stopping({.patience = 2, .verbose = true});
  const Training training = train(line(), kMaxEpochs, {scripted("val_loss", {5, 4, 4.5, 4.2, 3, 2}), stopping});
  EXPECT_EQ(training.history.epoch.size(), 4U);
  EXPECT_EQ(training.printed, "Epoch 4: early stopping\n");
  EXPECT_EQ(stopping.stopped_epoch(), 3);
  EXPECT_EQ(stopping.best_epoch(), 1);
  EXPECT_EQ(stopping.best(), 4);
}

TEST(EarlyStopping, BeginsAnewInEachTraining) {
  const EarlyStopping stopping({.patience = 1});
  EXPECT_EQ(epochs_until_stop(stopping, {1, 2}), 2U);
  EXPECT_EQ(epochs_until_stop(stopping, {9, 8, 7, 7}), 4U);
}

TEST(EarlyStopping, WithoutPatienceStopsAtTheFirstEpochThatIsNoBetterButNeverAtEpoch0) {
  EXPECT_EQ(epochs_until_stop(EarlyStopping(), {5, 4, 4}), 3U);
  EXPECT_EQ(epochs_until_stop(EarlyStopping(), {5, 5}), 2U);
}

TEST(EarlyStopping, WantsMoreThanMinDelta) {
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.min_delta = 1}), {5, 3, 2}), 3U);
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.min_delta = -1}), {5, 3, 2}), 3U);
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.min_delta = 1, .mode = MonitorMode::max}), {1, 3, 4}), 3U);
}

TEST(EarlyStopping, WaitsOnUntilTheBaselineIsBeaten) {
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.patience = 2, .baseline = 1}), {2, 1.5, 1.6}), 3U);
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.patience = 2, .baseline = 1}), {2, 0.5, 1.6, 1.6}), 4U);
}

TEST(EarlyStopping, DoesNotCountBeforeStartFromEpoch) {
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.start_from_epoch = 2}), {1, 2, 3, 4}), 4U);
}

TEST(EarlyStopping, RestoresTheWeightsOfTheBestEpoch) {
  const Sequential model = line();
  std::vector<double> weights;
  const callbacks::LambdaCallback note({.on_epoch_end = [&](callbacks::TrainingState& state, int64_t, Logs&) {
    weights.push_back(weight_of(state.model));
  }});
  const EarlyStopping stopping({.patience = 2, .verbose = true, .restore_best_weights = true});
  const Training training = train(model, kMaxEpochs, {note, scripted("val_loss", {5, 4, 6, 7, 8, 9}), stopping});
  ASSERT_EQ(weights.size(), 4U);
  EXPECT_NE(weights[1], weights[3]);
  EXPECT_EQ(weight_of(model), weights[1]);
  EXPECT_EQ(training.printed, "Epoch 4: early stopping\nRestoring model weights from the end of the best epoch: 2.\n");
}

TEST(EarlyStopping, RestoresTheBestWeightsAlsoWhereNothingStopped) {
  const Sequential model = line();
  train(model, 2, {scripted("val_loss", {1, 2}), EarlyStopping({.patience = 9, .restore_best_weights = true})});
  const Sequential one_epoch = line();
  train(one_epoch, 1, {});
  EXPECT_EQ(weight_of(model), weight_of(one_epoch));
}

TEST(EarlyStopping, WarnsOnceAnEpochOfANumberThatIsNotThere) {
  const Training training = train(line(), 2, {EarlyStopping()});
  EXPECT_EQ(training.history.epoch.size(), 2U);
  const std::string warning =
      "Early stopping conditioned on metric `val_loss` which is not available. Available metrics are: "
      "accuracy,loss,mae\n";
  EXPECT_EQ(training.warnings, warning + warning);
}

TEST(EarlyStopping, TakesTheDirectionFromTheModel) {
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.monitor = "val_accuracy"}), {0.5, 0.6, 0.6}, "val_accuracy"), 3U);
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.monitor = "val_mae"}), {0.5, 0.4, 0.6}, "val_mae"), 3U);
  EXPECT_EQ(epochs_until_stop(EarlyStopping({.monitor = "x", .mode = MonitorMode::max}), {1, 2, 1}, "x"), 3U);
}

TEST(EarlyStopping, AsksForTheModeWhereTheDirectionIsNotKnown) {
  EXPECT_THAT(error_of([] { train(line(), 1, {EarlyStopping({.monitor = "val_reward"})}); }),
              HasSubstr("invalid_argument: EarlyStopping: monitor is \"val_reward\", of which is not known"));
}

TEST(EarlyStopping, RefusesANegativePatience) {
  EXPECT_EQ(code_of([] { EarlyStopping({.patience = -1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { EarlyStopping({.start_from_epoch = -1}); }), ErrorCode::invalid_argument);
}

// Labels whose second batch makes the loss this number.
Tensor labels_with(double value) {
  Tensor labels = at::zeros({4, 1});
  labels[3] = value;
  return labels;
}

TEST(TerminateOnNaN, StopsAtTheBatchThatIsNaNOrInfinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    bool ended = false;
    const callbacks::LambdaCallback end({.on_train_end = [&](auto&&...) { ended = true; }});
    const Training training = train(line(), 3, {TerminateOnNaN(), end}, labels_with(bad));
    EXPECT_EQ(training.history.epoch.size(), 1U);
    EXPECT_EQ(training.printed, "Batch 1: Invalid loss, terminating training\n");
    EXPECT_TRUE(ended);
  }
}

TEST(TerminateOnNaN, ThrowsBeforeTheEndIsToldWithRaiseError) {
  bool ended = false;
  const callbacks::LambdaCallback end({.on_train_end = [&](auto&&...) { ended = true; }});
  const auto run = [&] {
    train(line(), 3, {TerminateOnNaN({.raise_error = true}), end},
          labels_with(std::numeric_limits<double>::quiet_NaN()));
  };
  EXPECT_THAT(error_of(run), HasSubstr("NaN or Inf loss encountered at batch 1. Loss value: nan. Terminating training "
                                       "immediately."));
  EXPECT_FALSE(ended);
}

TEST(TerminateOnNaN, LeavesASoundTrainingAlone) {
  const Training training = train(line(), 3, {TerminateOnNaN()});
  EXPECT_EQ(training.history.epoch.size(), 3U);
  EXPECT_EQ(training.printed, "");
}

TEST(LambdaCallback, CallsTheFunctionsThatItHas) {
  std::string calls;
  const auto note = [&](const char* name) { return [&calls, name](auto&&...) { calls += name; }; };
  const callbacks::LambdaCallback all({.on_train_begin = note("<train "),
                                       .on_train_end = note("train>"),
                                       .on_epoch_begin = note("<epoch "),
                                       .on_epoch_end = note("epoch> "),
                                       .on_train_batch_begin = note("<"),
                                       .on_train_batch_end = note("> "),
                                       .on_test_begin = note("<test "),
                                       .on_test_end = note("test>"),
                                       .on_test_batch_begin = note("("),
                                       .on_test_batch_end = note(") "),
                                       .on_predict_begin = note("<predict "),
                                       .on_predict_end = note("predict>"),
                                       .on_predict_batch_begin = note("["),
                                       .on_predict_batch_end = note("] ")});
  const Sequential model = line();
  train(model, 1, {all});
  EXPECT_EQ(calls, "<train <epoch <> <> epoch> train>");
  calls.clear();
  const Tensor x = at::ones({4, 1});
  model.evaluate(x, x, {.batch_size = 2, .verbose = Verbose::silent, .callbacks = {all}});
  EXPECT_EQ(calls, "<test () () test>");
  calls.clear();
  (void)model.predict(x, {.batch_size = 2, .callbacks = {all}});
  EXPECT_EQ(calls, "<predict [] [] predict>");
}

}  // namespace
}  // namespace tutti::keras
