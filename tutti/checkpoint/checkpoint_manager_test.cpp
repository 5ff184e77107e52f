#include "tutti/checkpoint/checkpoint_manager.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CheckpointManager, KeepsTheNewest) {
  for (const bool async : {false, true}) {
    const TemporaryFolder folder;
    int64_t step = 0;
    CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.max_to_keep = 2, .async = async});
    EXPECT_EQ(manager.latest_checkpoint(), std::nullopt);
    for (step = 1; step <= 3; ++step) manager.save();
    EXPECT_THAT(manager.checkpoints(), ElementsAre(folder.path() / "ckpt-2", folder.path() / "ckpt-3"));
    EXPECT_EQ(manager.latest_checkpoint(), folder.path() / "ckpt-3");
    step = 0;
    EXPECT_EQ(manager.restore_or_initialize(), folder.path() / "ckpt-3");
    EXPECT_EQ(step, 3);
  }
}

TEST(CheckpointManager, AnEmptyDirectoryLeavesEverythingAsItIs) {
  const TemporaryFolder folder;
  int64_t step = 5;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path() / "not" / "there");
  EXPECT_EQ(manager.restore_or_initialize(), std::nullopt);
  EXPECT_EQ(step, 5);
}

TEST(CheckpointManager, NumbersCanBeGiven) {
  for (const bool async : {false, true}) {
    const TemporaryFolder folder;
    int64_t step = 40;
    CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.async = async});
    EXPECT_EQ(manager.save(step), folder.path() / "ckpt-40");
    EXPECT_EQ(manager.save(7), folder.path() / "ckpt-7");
    EXPECT_EQ(manager.save(), folder.path() / "ckpt-41");
    CheckpointManager later(Checkpoint({{"step", step}}), folder.path(), {.async = async});
    manager.wait();
    EXPECT_EQ(later.save(), folder.path() / "ckpt-42");
  }
}

TEST(CheckpointManager, AnAsynchronousSaveHasTheValuesOfItsCall) {
  const TemporaryFolder folder;
  const Tensor weights = at::zeros({1 << 16});
  int64_t step = 0;
  const Checkpoint checkpoint({{"weights", weights}, {"step", step}});
  CheckpointManager manager(checkpoint, folder.path(), {.max_to_keep = std::nullopt, .async = true});
  std::vector<std::filesystem::path> folders;
  for (step = 1; step <= 5; ++step) {
    weights.fill_(static_cast<double>(step));
    folders.push_back(manager.save());
    weights.fill_(-1);  // at once, beside the thread that writes
  }
  manager.wait();
  for (int64_t saved = 1; saved <= 5; ++saved) {
    checkpoint.restore(folders[static_cast<size_t>(saved - 1)]).assert_consumed();
    EXPECT_EQ(step, saved);
    EXPECT_TRUE(weights.equal(at::full({1 << 16}, saved, at::kFloat)));
  }
}

TEST(CheckpointManager, AnErrorInTheBackgroundSurfacesAtTheNextSave) {
  const TemporaryFolder folder;
  int64_t step = 0;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path() / "file" / "below", {.async = true});
  std::ofstream(folder.path() / "file") << "in the way";
  EXPECT_THAT(error_of([&] {
                manager.save();
                manager.save();
              }),
              HasSubstr("file"));
}

TEST(CheckpointManager, AnotherProgramsCheckpointIsRefusedBeforeAnythingChanges) {
  const TemporaryFolder folder;
  const Tensor weights = at::ones({2});
  int64_t step = 1;
  CheckpointManager(Checkpoint({{"weights", weights}, {"step", step}}), folder.path()).save();
  step = 9;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path());
  EXPECT_THAT(error_of([&] { manager.restore_or_initialize(); }),
              testing::AllOf(HasSubstr("failed_precondition"), HasSubstr("'weights'"), HasSubstr("expect_partial")));
  EXPECT_EQ(step, 9);
}

}  // namespace
}  // namespace tutti::train
