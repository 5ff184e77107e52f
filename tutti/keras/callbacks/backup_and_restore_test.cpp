#include "tutti/keras/callbacks/backup_and_restore.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/scripted_training.h"
#include "tests/support/temporary_folder.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras {
namespace {

using callbacks::BackupAndRestore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Killed : std::runtime_error {
  Killed() : std::runtime_error("killed") {}
};

// Ends the training as a crash does, after so many batches.
callbacks::Callback kill_after(int64_t batches) {
  return callbacks::LambdaCallback({.on_train_batch_end = [left = batches](auto&&...) mutable {
    if (--left == 0) throw Killed();
  }});
}

constexpr int64_t kEpochs = 5, kBatches = 4;

// A training that draws random numbers: for the order of the samples, and on each of two replicas.
class BackedUp : public testing::Test {
 protected:
  Sequential make(int64_t seed) {
    set_random_seed(seed);
    return strategy_.build([] {
      Sequential model({layers::Dense({.units = 8}), layers::Dropout({.rate = 0.5}), layers::Dense({.units = 1})});
      model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.05}), .loss = losses::MeanSquaredError()});
      model.build(Shape{kUnknown, 3});
      return model;
    });
  }

  static History fit(const Sequential& model, std::vector<callbacks::Callback> callbacks) {
    const Tensor x = at::arange(48, at::kFloat).view({16, 3}).div(48);
    return model.fit(x, x.sum(1, /*keepdim=*/true),
                     {.batch_size = 16 / kBatches,
                      .epochs = kEpochs,
                      .verbose = Verbose::silent,
                      .callbacks = std::move(callbacks)});
  }

  static bool equal(const Sequential& one, const Sequential& other) {
    const auto weights = one.get_weights(), others = other.get_weights();
    bool same = weights.size() == others.size();
    for (size_t i = 0; same && i < weights.size(); ++i) same = weights[i].equal(others[i]);
    return same;
  }

  BackupAndRestore backup() const { return BackupAndRestore({.backup_dir = folder_ / "backup"}); }
  bool has_backup() const { return std::filesystem::exists(folder_ / "backup"); }

  TemporaryFolder folder_;
  MirroredStrategy strategy_{{.devices = configure_logical_cpus(2)}};
};

TEST_F(BackedUp, AKilledTrainingGoesOnToTheSameWeights) {
  const Sequential undisturbed = make(1);
  fit(undisturbed, {});
  // Inside of epoch 3, then at once again, then at the end of the last epoch's batches.
  EXPECT_THROW(fit(make(1), {backup(), kill_after(3 * kBatches + 2)}), Killed);
  EXPECT_THROW(fit(make(2), {backup(), kill_after(1)}), Killed);
  EXPECT_THROW(fit(make(3), {backup(), kill_after(2 * kBatches)}), Killed);
  EXPECT_TRUE(has_backup());
  const Sequential last = make(4);
  const History history = fit(last, {backup()});
  EXPECT_THAT(history.epoch, ElementsAre(4));
  EXPECT_TRUE(equal(last, undisturbed));
  EXPECT_FALSE(has_backup());
}

TEST_F(BackedUp, ATrainingThatEndedIsNotDoneAgainWhereItsBackupIsKept) {
  const BackupAndRestore kept({.backup_dir = folder_ / "backup", .delete_checkpoint = false});
  const Sequential model = make(1), again = make(2);
  fit(model, {kept});
  EXPECT_TRUE(has_backup());
  EXPECT_TRUE(fit(again, {kept}).epoch.empty());
  EXPECT_TRUE(equal(model, again));
}

TEST_F(BackedUp, AnEpochIsDoneAnewAfterABackupInsideOfIt) {
  const BackupAndRestore often({.backup_dir = folder_ / "backup", .save_freq = 3});
  const Sequential killed = make(1), again = make(2);
  EXPECT_THROW(fit(killed, {often, kill_after(kBatches + 3)}), Killed);  // the last backup is of the second batch
  EXPECT_THAT(fit(again, {often}).epoch, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(again.model().compiled().optimizer->iterations(), 6 + 4 * kBatches);
}

TEST_F(BackedUp, OfTwoBackupsTheDamagedOneIsPassedOver) {
  const BackupAndRestore twice({.backup_dir = folder_ / "backup", .double_checkpoint = true});
  EXPECT_THROW(fit(make(1), {twice, kill_after(3 * kBatches + 1)}), Killed);
  folder_.write("backup/ckpt-3/index.json", "damaged");
  const CollectedWarnings warnings;
  const History history = fit(make(2), {twice});
  EXPECT_THAT(history.epoch, ElementsAre(2, 3, 4));
  EXPECT_THAT(warnings.lines(), testing::Contains(HasSubstr("ckpt-3")));
}

TEST_F(BackedUp, TheOneBackupThatIsDamagedIsAnError) {
  EXPECT_THROW(fit(make(1), {backup(), kill_after(2 * kBatches + 1)}), Killed);
  folder_.write("backup/ckpt-2/index.json", "damaged");
  EXPECT_EQ(code_of([&] { fit(make(2), {backup()}); }), ErrorCode::data_loss);
}

TEST_F(BackedUp, WhatElseIsInTheFolderStays) {
  folder_.write("backup/notes", "mine");
  fit(make(1), {backup()});
  EXPECT_EQ(folder_.read("backup/notes"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "backup/ckpt-5"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "backup/checkpoint"));
}

TEST(BackupAndRestore, RefusesAModelThatIsNotBuilt) {
  const TemporaryFolder folder;
  const Sequential model({layers::Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  EXPECT_THAT(error_of([&] { train(model, 1, {BackupAndRestore({.backup_dir = folder.path()})}); }),
              HasSubstr("your model must be built before you call `fit()`"));
}

TEST(BackupAndRestore, RefusesFoldersThatWontDo) {
  EXPECT_EQ(code_of([] { BackupAndRestore({}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { BackupAndRestore({.backup_dir = "b", .save_freq = -1}); }), ErrorCode::invalid_argument);
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_EQ(code_of([&] { train(line(), 1, {BackupAndRestore({.backup_dir = folder / "file"})}); }),
            ErrorCode::unavailable);
}

}  // namespace
}  // namespace tutti::keras
