// What happens to replicas when the process ends or forks, and what a new process starts with.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/error_of.h"
#include "tests/support/watchdog.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

int this_replica() { return get_replica_context().replica_id_in_sync_group(); }

// In a process of its own, that ends after 20 s.
class ProcessDeathTest : public testing::Test {
 protected:
  ProcessDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void exit_in_replica(int which) {
  alarm(20);
  static MirroredStrategy strategy({.devices = configure_logical_cpus(3)});
  strategy.run([&] {
    if (this_replica() == which) std::exit(7);
    get_replica_context().all_reduce(ReduceOp::sum, at::ones({}));
  });
}

TEST_F(ProcessDeathTest, EndsWhereAReplicaExitsWhileOthersWait) {
  EXPECT_EXIT(exit_in_replica(0), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(exit_in_replica(1), testing::ExitedWithCode(7), "");
}

// 0 if a run, and the strategy's end, are as they should be in a process that fork() made.
int use_after_fork(std::unique_ptr<MirroredStrategy> strategy) {
  alarm(20);
  if (code_of([&] { strategy->run([] {}); }) != ErrorCode::failed_precondition) return 1;
  strategy.reset();
  MirroredStrategy own({.devices = configure_logical_cpus(2)});
  return own.run([] { return this_replica(); })[1] == 1 ? 0 : 2;
}

TEST(Process, ThatForkMadeRefusesToRunReplicasOfAnother) {
  const Watchdog watchdog(60s);
  auto strategy = std::make_unique<MirroredStrategy>(MirroredStrategyOptions{.devices = configure_logical_cpus(2)});
  strategy->run([] {});
  const pid_t child = fork();
  if (child == 0) _exit(use_after_fork(std::move(strategy)));
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  strategy->run([] {});
}

void count_threads_of_first_run() {
  at::set_num_threads(4);
  MirroredStrategy strategy({.devices = configure_logical_cpus(4)});
  const Tensor ones = at::ones({1 << 20});
  const auto threads = strategy.run([&] {
    (ones + 1).sum();
    return at::get_num_threads();
  });
  std::exit(std::ranges::count(threads.values(), 1));
}

TEST_F(ProcessDeathTest, GivesReplicasOneThreadEachFromTheFirstRunOn) {
  EXPECT_EXIT(count_threads_of_first_run(), testing::ExitedWithCode(4), "");
}

}  // namespace
}  // namespace tutti
