#pragma once

#include <vector>

#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/object_graph.h"

namespace tutti::checkpoint {

// The state of all objects, under the names "object/part/…", and of the random numbers. Tensors are not copied. An
// int64 number named "step" is the step of the contents. In global view. Throws: invalid_argument for a value that
// cannot be saved; what an object throws.
Contents state_of(const std::vector<NamedTrackable>& objects);

// The same with tensors that nobody can change any more: copy-on-write clones where LibTorch can make them of what lies
// in CPU memory, else copies. Whoever writes to the original first pays for its copy.
Contents snapshot(Contents contents);

}  // namespace tutti::checkpoint
