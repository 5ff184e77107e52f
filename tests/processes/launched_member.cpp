// What launch_test.py starts by `tutti launch`:
//   sum           sums the ranks plus one of all, prints "rank 1 of 3: 6"
//   meet          says how many wrote a key first, behind a barrier of all
//   lose INDEX    that worker kills itself; the others, which SIGTERM does not end, print what their barrier throws
//   ring [RANK]   as sum, by the ring; that rank kills itself before, and the others, which SIGTERM does not end, print
//   what
//                 their sums throw, and within how many milliseconds
//   die RANK      that rank kills itself in the first attempt; the others print what their next sums throw, status 1
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tutti/cluster/cluster.h"
#include "tutti/collectives/cluster_group.h"
#include "tutti/collectives/shared_memory/launched_group.h"
#include "tutti/core/error.h"

namespace {

double sum_of_ranks(tutti::Group& group) {
  double value = group.rank() + 1;
  group.run({.kind = tutti::CollectiveKind::all_reduce,
             .dtype = tutti::Dtype::float64,
             .count = 1,
             .input = &value,
             .output = &value,
             .name = "ranks"});
  return value;
}

[[noreturn]] void sum_until_one_dies(tutti::Group& group, int victim) {
  for (int i = 0;; ++i) {
    if (i == 100 && group.rank() == victim) kill(getpid(), SIGKILL);
    sum_of_ranks(group);
  }
}

int run_cluster(const std::string& action, int victim) {
  signal(SIGTERM, SIG_IGN);
  const auto cluster = tutti::cluster::Cluster::join();
  if (action == "lose" && cluster->task().index == victim) kill(getpid(), SIGKILL);
  const bool was_first = cluster->insert("first", to_string(cluster->task()));
  cluster->barrier("all have written");
  if (was_first) std::cout << cluster->get("first", std::chrono::seconds(1)) << " was first" << std::endl;
  cluster->barrier("end");
  return 0;
}

int run_ring(int victim) {
  const auto cluster = tutti::cluster::Cluster::join();
  const auto group = tutti::cluster_group(*cluster, {.way = tutti::ClusterGroupOptions::Way::ring});
  if (victim < 0) {
    const double sum = sum_of_ranks(*group);
    std::cout << "rank " << group->rank() << " of " << group->size() << ": " << sum << std::endl;
    cluster->barrier("end");
    return 0;
  }
  signal(SIGTERM, SIG_IGN);
  auto last = std::chrono::steady_clock::now();
  try {
    for (int i = 0;; ++i) {
      if (i == 100 && group->rank() == victim) kill(getpid(), SIGKILL);
      last = std::chrono::steady_clock::now();
      sum_of_ranks(*group);
    }
  } catch (const tutti::Error& error) {
    const auto took = std::chrono::steady_clock::now() - last;
    std::cerr << "after " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms "
              << to_string(error.code()) << ": " << error.what() << std::endl;
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string action = argc > 1 ? argv[1] : "sum";
    if (action == "meet" || action == "lose") return run_cluster(action, argc > 2 ? std::atoi(argv[2]) : -1);
    if (action == "ring") return run_ring(argc > 2 ? std::atoi(argv[2]) : -1);
    const auto group = tutti::launched_group();
    const bool dies = action == "die" && argc > 2 && std::string(std::getenv("TUTTI_RESTARTS")) == "0";
    if (dies) sum_until_one_dies(*group, std::atoi(argv[2]));
    const double sum = sum_of_ranks(*group);
    std::cout << "rank " << group->rank() << " of " << group->size() << ": " << sum << std::endl;
  } catch (const tutti::Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << std::endl;
    return 1;
  }
}
