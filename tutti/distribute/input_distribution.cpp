#include "tutti/distribute/input_distribution.h"

#include "tutti/collectives/processes.h"

namespace tutti {

const std::shared_ptr<Processes>& InputDistribution::processes() const {
  static const std::shared_ptr<Processes> none;
  return none;
}

int InputDistribution::num_local_replicas() const {
  return static_cast<int>(num_replicas_in_sync()) / (processes() ? processes()->size() : 1);
}

int InputDistribution::first_local_replica() const {
  return processes() ? processes()->rank() * num_local_replicas() : 0;
}

}  // namespace tutti
