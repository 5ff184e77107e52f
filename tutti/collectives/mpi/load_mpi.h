#pragma once

#include <chrono>

#include "tutti/cluster/environment.h"
#include "tutti/collectives/mpi/mpi_module.h"

namespace tutti {

// MPI, as the module libtutti_mpi.so gives it: the file that TUTTI_MPI_MODULE names, else beside the program, in the
// folder lib beside the program's folder, or wherever the system looks for libraries. It is loaded once and stays for
// the life of the process. Throws: not_found where it is not, which names where it was looked for; failed_precondition
// for what cannot be loaded, is no module, or is of another version of the library.
const MpiModule& load_mpi(const cluster::Environment& environment = cluster::Environment::of_process());

// Starts MPI unless the program has; all of the `size` processes that mpirun started call it. Returns the rank of this
// one there. Throws: failed_precondition for an MPI that cannot be used, and where it knows more or fewer processes.
int start_mpi(const MpiModule& mpi, int size);

// Returns when all processes have come to it. Throws: deadline_exceeded, unavailable.
void connect_mpi(const MpiModule& mpi, std::chrono::milliseconds timeout);

}  // namespace tutti
