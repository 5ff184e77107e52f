#pragma once

#include <vector>

#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/object_graph.h"

namespace tutti::checkpoint {

// The state of all objects, under the names "object/part/…", and of the random numbers. Tensors are not copied. An
// int64 number named "step" is the step of the contents. In global view. Throws: invalid_argument for a value that
// cannot be saved; what an object throws.
Contents state_of(const std::vector<NamedTrackable>& objects);

// The same with tensors of their own: copies; or, `shared`, copy-on-write clones where LibTorch can make them of what
// lies in CPU memory. Whoever writes to the original first then pays for its copy, and nobody may drop a clone beside
// that.
Contents snapshot(Contents contents, bool shared);

}  // namespace tutti::checkpoint
