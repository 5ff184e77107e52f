#pragma once

#include <memory>
#include <vector>

#include "tutti/collectives/mpi/mpi_module.h"
#include "tutti/collectives/ring/ring_carrier.h"

namespace tutti {

// Carries a ring's messages by MPI: a frame of at most 4000 bytes, and behind it in a message of its own what does not
// fit in. `places` are the members' ranks in MPI, by rank; `tag` and the number behind it are of this group alone.
//
// MPI writes to memory, and reads it, until a request is done, and of a peer that is gone none may ever be. So this
// memory is never the caller's, and what MPI still has when the carrier ends stays for the life of the process.
std::unique_ptr<RingCarrier> mpi_carrier(const MpiModule& mpi, int rank, const std::vector<int>& places, int tag);

}  // namespace tutti
