#pragma once

#include <memory>

#include "tutti/cluster/environment.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"

namespace tutti {

// The group of the chief and the workers that `tutti launch` started, of which this process is one; ranks as
// cluster::id_in_cluster gives them. To be called once. The processes that this one starts do not inherit the memory.
// Throws: failed_precondition for a process that was not started so, or does not train (a ps, an evaluator); and as
// shared_memory_group does.
std::unique_ptr<Group> launched_group(const SharedMemoryGroupOptions& options = {},
                                      const cluster::Environment& environment = cluster::Environment::of_process());

}  // namespace tutti
