#pragma once

#include <chrono>

#include "tests/support/group_members.h"
#include "tutti/collectives/mpi/mpi_module.h"

namespace tutti {

constexpr int kMaxRanksInMemory = 9;

// MPI as the threads of this process have it: what this rank calls. Messages of more than 4000 bytes are read where the
// sender has them when they are received, as MPI may do it, and a request is done when it pleases.
const MpiModule& mpi_in_memory(int rank);

// Members whose messages it carries; the tag of those that were made last.
Groups mpi_of_threads(int size, std::chrono::milliseconds timeout);
int last_tag_of_threads();

}  // namespace tutti
