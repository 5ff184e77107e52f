#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tutti/collectives/communication_options.h"

namespace tutti {

// Programs of the tests are run once more with MULTI_WORKER_BY=ring, and with MULTI_WORKER_BY=mpi.
inline CommunicationImplementation implementation_by_environment() {
  const char* by = std::getenv("MULTI_WORKER_BY");
  if (!by) return CommunicationImplementation::auto_;
  if (std::string(by) == "ring") return CommunicationImplementation::ring;
  if (std::string(by) == "mpi") return CommunicationImplementation::mpi;
  throw std::runtime_error(std::string("MULTI_WORKER_BY=") + by);
}

}  // namespace tutti
