// What launch_test.py starts by `tutti launch`:
//   sum           sums the ranks plus one of all, prints "rank 1 of 3: 6"
//   die RANK      that rank kills itself in the first attempt; the others print what their next sums throw, status 1
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

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

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto group = tutti::launched_group();
    const bool dies = argc > 2 && std::string(std::getenv("TUTTI_RESTARTS")) == "0";
    for (int i = 0; dies; ++i) {
      if (i == 100 && group->rank() == std::atoi(argv[2])) kill(getpid(), SIGKILL);
      sum_of_ranks(*group);
    }
    const double sum = sum_of_ranks(*group);
    std::cout << "rank " << group->rank() << " of " << group->size() << ": " << sum << std::endl;
  } catch (const tutti::Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << std::endl;
    return 1;
  }
}
