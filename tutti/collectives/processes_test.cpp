#include "tutti/collectives/processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/watchdog.h"
#include "tutti/cluster/launch_record.h"
#include "tutti/cluster/leader_server.h"
#include "tutti/collectives/local/local_group.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using cluster::Cluster;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Processes, TellWithEachHeartbeatInWhichCallTheyAre) {
  const Watchdog watchdog(60s);
  std::vector<FileDescriptor> leaders;
  std::vector<cluster::Environment> environments;
  for (int i = 0; i < 2; ++i) {
    cluster::ControlSockets sockets = cluster::make_control_sockets();
    leaders.push_back(std::move(sockets.leader));
    const cluster::LaunchRecord record{.spec = cluster::ClusterSpec::of_size("worker", 2),
                                       .task = {"worker", i},
                                       .control = fcntl(sockets.member.number(), F_DUPFD_CLOEXEC, 0)};
    environments.push_back(cluster::Environment::Variables{{"TUTTI_CLUSTER", to_string(record)}});
  }
  const cluster::LeaderServer leader({{"worker", 0}, {"worker", 1}}, std::move(leaders));
  const FileDescriptor memory = create_group_memory(2);
  std::vector<std::unique_ptr<Processes>> processes(2);
  const auto join = [&](int i) {
    auto member = Cluster::join({.heartbeat = 10ms}, environments[static_cast<size_t>(i)]);
    processes[static_cast<size_t>(i)] =
        std::make_unique<Processes>(shared_memory_group(memory.number(), i), std::move(member));
  };
  std::thread other(join, 1);
  join(0);
  other.join();
  std::thread waiting([&] { processes[0]->sum(1, "losses"); });
  std::string told;
  while (told.find("losses") == std::string::npos) told = processes[1]->cluster()->describe_members();
  EXPECT_THAT(told, HasSubstr("worker 0: runs (in call 1, all_reduce of 1 int64 'losses' at processes_test.cpp:"));
  EXPECT_EQ(processes[1]->sum(2, "losses"), 3);
  waiting.join();
}

TEST(Processes, RefuseNcclWithoutAGpu) {
  EXPECT_THAT(error_of([] { Processes::join({.implementation = CommunicationImplementation::nccl}); }),
              AllOf(StartsWith("invalid_argument: CommunicationImplementation::nccl adds in the memory of GPUs"),
                    HasSubstr("take auto_")));
}

TEST(Processes, OnGpusAddThereAndKeepOnTheHostWhatLiesThere) {
  const FakeNccl fake;
  JoinedByNccl joined = join_by_nccl(local_groups(2), 20s, [&](int) { return fake.environment(); });
  std::vector<std::unique_ptr<Processes>> processes;
  for (auto& group : joined.groups) processes.push_back(std::make_unique<Processes>(std::move(group), nullptr));
  const auto train = [&](int rank) {
    Processes& own = *processes[static_cast<size_t>(rank)];
    EXPECT_EQ(own.device(), rank);
    EXPECT_EQ(own.sum(rank + 1, "examples"), 3);
    float gradient = 0.5;
    const auto add = [&] {
      own.run({.kind = CollectiveKind::all_reduce,
               .count = 1,
               .input = &gradient,
               .output = &gradient,
               .place = BufferPlace::device,
               .name = "gradients"});
    };
    add();
    EXPECT_EQ(gradient, 1);
    own.sum(1, "steps");
    fake.set(NcclFault::failed_call);
    own.sum(1, "steps");
    EXPECT_THAT(error_of(add), HasSubstr("; rank 0 is process 0, rank 1 is process 1"));
  };
  std::thread other(train, 1);
  train(0);
  other.join();
  EXPECT_EQ(fake.calls(), " ncclAllReduce ncclAllReduce");
}

}  // namespace
}  // namespace tutti
