#pragma once

#include <cstdint>
#include <vector>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// rebatch() of distribution itself: auto-sharding by data may cut by replicas instead, whatever the sizes. Those that a
// program cuts it leaves.
NodePtr rebatch_for_replicas(const NodePtr& input, std::vector<int64_t> sizes);

}  // namespace tutti::data::graph
