#include "tutti/collectives/cluster_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using cluster::Cluster;
using cluster::Environment;
using testing::HasSubstr;
using Way = ClusterGroupOptions::Way;

// What each of three tasks, a chief and two workers on this host, gets as the sum of the ranks.
std::vector<std::string> sums_of_ranks(Way way, int port) {
  std::vector<std::string> results(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const std::string task = rank == 0 ? "\"chief\", \"index\": 0" : str("\"worker\", \"index\": ", rank - 1);
      const Environment environment(Environment::Variables{
          {"TF_CONFIG", str("{\"cluster\": {\"chief\": [\"localhost:", port, "\"], \"worker\": [\"localhost:", port + 1,
                            "\", \"localhost:", port + 2, "\"]}, \"task\": {\"type\": ", task, "}}")}});
      std::string& result = results[static_cast<size_t>(rank)];
      result = error_of([&] {
        const auto cluster = Cluster::join({.connect_timeout = 20s}, environment);
        const auto group = cluster_group(*cluster, {.timeout = 20s, .way = way});
        int64_t value = group->rank();
        group->run(
            {.kind = CollectiveKind::all_reduce, .dtype = Dtype::int64, .count = 1, .input = &value, .output = &value});
        EXPECT_EQ(value, 3);
        EXPECT_EQ(group->rank(), rank);
        cluster->barrier("end");
      });
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(ClusterGroup, MeetsInMemoryOrByTheRing) {
  int port = 20000 + getpid() % 20000;  // names of sockets: nobody listens at a port
  for (const Way way : {Way::automatic, Way::shared_memory, Way::ring}) {
    for (const std::string& result : sums_of_ranks(way, port)) EXPECT_EQ(result, "no error");
    port += 10;
  }
}

}  // namespace
}  // namespace tutti
