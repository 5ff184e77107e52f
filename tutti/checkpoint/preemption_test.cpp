#include "tutti/checkpoint/preemption.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti {
namespace {

TEST(Preemption, ASignalEndsTrainingWithACheckpointBeforeTheNextStep) {
  const TemporaryFolder folder;
  const auto train_until_killed = [&](int64_t steps_until_signal) {
    int64_t step = 0;
    CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.async = true});
    PreemptionCheckpointHandler handler(manager);
    const int64_t begin = step;
    while (true)
      handler.run([&] {
        if (++step == begin + steps_until_signal) std::raise(SIGTERM);
      });
  };
  EXPECT_EXIT(train_until_killed(3), testing::ExitedWithCode(143), "");
  EXPECT_EXIT(train_until_killed(4), testing::ExitedWithCode(143), "");

  int64_t step = 0;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path());
  manager.restore_or_initialize();
  EXPECT_EQ(step, 7);
}

TEST(Preemption, OneHandlerTakesTheSignal) {
  const TemporaryFolder folder;
  int64_t step = 0;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path());
  {
    const PreemptionCheckpointHandler handler(manager);
    EXPECT_EQ(code_of([&] { const PreemptionCheckpointHandler another(manager); }), ErrorCode::failed_precondition);
  }
  const PreemptionCheckpointHandler later(manager);
  EXPECT_FALSE(later.preempted());
}

TEST(Preemption, AWatcherAndAnExitOfTheUsersAreCalled) {
  const TemporaryFolder folder;
  int64_t step = 0;
  bool must_end = false, exited = false;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path());
  PreemptionCheckpointHandler handler(
      manager, {.termination_watcher_fn = [&] { return must_end; }, .exit_fn = [&] { exited = true; }});
  handler.save_checkpoint_if_preempted();
  EXPECT_EQ(manager.latest_checkpoint(), std::nullopt);
  must_end = true;
  handler.save_checkpoint_if_preempted();
  EXPECT_EQ(manager.latest_checkpoint(), folder.path() / "ckpt-1");
  EXPECT_TRUE(exited);
}

}  // namespace
}  // namespace tutti
