// A program that uses MPI itself, which mpi_test.py starts by mpirun:
//   own      it starts MPI, sums by it and by a strategy in turns, and ends it while the strategy's processes are there
//   single   it has started MPI for one thread alone
//   over     it has ended MPI before
#include <mpi.h>

#include <iostream>
#include <string>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace {

using namespace tutti;

void tell(const Error& error) { std::cerr << str(to_string(error.code()), ": ", error.what(), '\n'); }

int sum_in_turns() {
  const auto processes =
      Processes::join({.timeout = std::chrono::seconds(20), .implementation = CommunicationImplementation::mpi});
  for (int64_t i = 0; i < 100; ++i) {
    int64_t theirs = 0;
    const int64_t ours = processes->sum(i, "numbers");
    MPI_Allreduce(&i, &theirs, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (ours != theirs) {
      std::cerr << i << ": " << ours << " and " << theirs << '\n';
      return 1;
    }
  }
  MPI_Finalize();
  try {
    processes->sum(1, "late");
  } catch (const Error& error) {
    tell(error);
    std::cout << "100 sums\n";
    return 0;
  }
  return 1;
}

}  // namespace

int main(int, char** argv) {
  const std::string action = argv[1];
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, action == "single" ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
  if (action == "over") MPI_Finalize();
  try {
    if (action == "own") return sum_in_turns();
    Processes::join({.implementation = CommunicationImplementation::mpi});
  } catch (const Error& error) {
    tell(error);
    if (action == "single") MPI_Finalize();
    return 3;
  }
}
