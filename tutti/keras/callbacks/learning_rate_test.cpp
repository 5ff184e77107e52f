// The callbacks that change the learning rate: ReduceLROnPlateau and LearningRateScheduler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"
#include "tests/support/scripted_training.h"
#include "tutti/keras/callbacks/learning_rate_scheduler.h"
#include "tutti/keras/callbacks/reduce_lr_on_plateau.h"
#include "tutti/keras/optimizers/schedules.h"

namespace tutti::keras {
namespace {

using callbacks::LearningRateScheduler;
using callbacks::ReduceLROnPlateau;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReduceLROnPlateau, ReducesWhenPatienceEnds) {
  const Training training = train(
      line(0.5), 5,
      {scripted("val_loss", {2, 1, 1, 1, 1}), ReduceLROnPlateau({.factor = 0.5, .patience = 2, .verbose = true})});
  EXPECT_THAT(training.history.history.at("learning_rate"), ElementsAre(0.5, 0.5, 0.5, 0.5, 0.25));
  EXPECT_EQ(training.printed, "\nEpoch 4: ReduceLROnPlateau reducing learning rate to 0.25.\n");
}

TEST(ReduceLROnPlateau, TakesLessThanMinDeltaForNoImprovement) {
  const Training training =
      train(line(0.5), 3, {scripted("val_loss", {1, 0.99995, 0.9}), ReduceLROnPlateau({.factor = 0.5, .patience = 1})});
  EXPECT_THAT(training.history.history.at("learning_rate"), ElementsAre(0.5, 0.5, 0.25));
}

TEST(ReduceLROnPlateau, CountsNothingWhileItCoolsDown) {
  const Training training =
      train(line(0.5), 5,
            {scripted("val_loss", {1, 1, 1, 1, 1}), ReduceLROnPlateau({.factor = 0.5, .patience = 1, .cooldown = 2})});
  EXPECT_THAT(training.history.history.at("learning_rate"), ElementsAre(0.5, 0.5, 0.25, 0.25, 0.125));
}

TEST(ReduceLROnPlateau, StopsAtTheLowerBound) {
  const Training training = train(line(0.5), 4,
                                  {scripted("val_loss", {1, 1, 1, 1}),
                                   ReduceLROnPlateau({.factor = 0.1, .patience = 1, .verbose = true, .min_lr = 0.25})});
  EXPECT_THAT(training.history.history.at("learning_rate"), ElementsAre(0.5, 0.5, 0.25, 0.25));
  EXPECT_EQ(training.printed, "\nEpoch 2: ReduceLROnPlateau reducing learning rate to 0.25.\n");
}

TEST(ReduceLROnPlateau, WarnsOfANumberThatIsNotThere) {
  EXPECT_EQ(train(line(), 1, {ReduceLROnPlateau()}).warnings,
            "Learning rate reduction is conditioned on metric `val_loss` which is not available. Available metrics "
            "are: accuracy,learning_rate,loss,mae.\n");
}

TEST(ReduceLROnPlateau, RefusesWhatDoesNotReduce) {
  EXPECT_THAT(error_of([] { ReduceLROnPlateau({.factor = 1}); }),
              HasSubstr("ReduceLROnPlateau does not support a factor >= 1.0. Received factor=1.0"));
  EXPECT_EQ(code_of([] { ReduceLROnPlateau({.factor = -0.1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { ReduceLROnPlateau({.patience = -1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { ReduceLROnPlateau({.cooldown = -1}); }), ErrorCode::invalid_argument);
}

optimizers::LearningRate schedule() {
  return optimizers::schedules::ExponentialDecay({.initial_learning_rate = 0.1, .decay_steps = 1, .decay_rate = 0.5});
}

TEST(ReduceLROnPlateau, DoesNotReplaceASchedule) {
  const ReduceLROnPlateau plateau({.patience = 1});
  EXPECT_THAT(error_of([&] {
                train(line(schedule()), 2, {scripted("val_loss", {1, 1}), plateau});
              }),
              HasSubstr("hence its learning rate is not settable"));
}

TEST(LearningRateScheduler, SetsTheRateOfEachEpoch) {
  const LearningRateScheduler halve([](int64_t epoch, double rate) { return epoch == 0 ? rate : rate / 2; },
                                    {.verbose = true});
  const Sequential model = line(0.25);
  const Training training = train(model, 3, {halve});
  EXPECT_THAT(training.history.history.at("learning_rate"), ElementsAre(0.25, 0.125, 0.0625));
  EXPECT_EQ(training.printed,
            "\nEpoch 1: LearningRateScheduler setting learning rate to 0.25.\n"
            "\nEpoch 2: LearningRateScheduler setting learning rate to 0.125.\n"
            "\nEpoch 3: LearningRateScheduler setting learning rate to 0.0625.\n");
  // Each of an epoch's two batches takes 2 * rate * w off the weight.
  EXPECT_NEAR(weight_of(model), 0.5 * 0.5 * 0.75 * 0.75 * 0.875 * 0.875, 1e-6);
}

TEST(LearningRateScheduler, RefusesWhatIsNoRate) {
  for (const double rate : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(code_of([&] { train(line(), 1, {LearningRateScheduler([=](int64_t, double) { return rate; })}); }),
              ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { LearningRateScheduler({}); }), ErrorCode::invalid_argument);
}

TEST(LearningRateScheduler, DoesNotReplaceASchedule) {
  const LearningRateScheduler same([](int64_t, double rate) { return rate; });
  EXPECT_EQ(code_of([&] { train(line(schedule()), 1, {same}); }), ErrorCode::failed_precondition);
}

}  // namespace
}  // namespace tutti::keras
