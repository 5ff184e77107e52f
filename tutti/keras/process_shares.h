#pragma once

#include <span>
#include <vector>

#include "tutti/collectives/processes.h"
#include "tutti/keras/running_logs.h"

namespace tutti::keras {

// The shares of the replicas of all processes, in their order, on the CPU; every process passes those of its own. So
// each process computes the numbers that one process with all replicas would compute.
std::vector<StepShare> shares_of_all_processes(Processes& processes, std::span<const StepShare> own);

}  // namespace tutti::keras
