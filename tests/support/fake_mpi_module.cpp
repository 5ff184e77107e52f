// A module for MPI as a later version of the library may have it.
#include "tutti/collectives/mpi/mpi_module.h"

extern "C" const tutti::MpiModule* tutti_mpi_module() {
  static const tutti::MpiModule module{.abi = tutti::kMpiModuleAbi + 1, .built_with = "MPI of tomorrow"};
  return &module;
}
