#pragma once

#include <memory>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// For an iterator with threads. A process that is forked has a copy of the iterator without them: there it can be
// dropped, which leaves its memory alone, and else throws failed_precondition, where it would wait for ever.
std::unique_ptr<Iterator> of_this_process(std::unique_ptr<Iterator> iterator);

}  // namespace tutti::data::graph
