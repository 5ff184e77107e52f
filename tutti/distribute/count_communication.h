#pragma once

#include <vector>

#include "tutti/collectives/communications.h"
#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

// Counts what several replicas are about to reduce, or to gather; one replica communicates nothing.
void count_reduction(CommunicationCounter& counter, const std::vector<ReduceRequest>& requests);
void count_gather(CommunicationCounter& counter, const PerReplica<Tensor>& values);

}  // namespace tutti
