#pragma once

#include <memory>

#include "tutti/cluster/rpc/shared_memory.h"
#include "tutti/cluster/rpc/stream.h"

namespace tutti::rpc {

// A stream whose messages go through memory that both ends have, in place of the connection over which they have agreed
// on it. That is kept, and carries nothing: where it ends, this one ends, after what is in the memory. `end`: 0 for the
// process that made the memory.
std::unique_ptr<Stream> share_memory(std::unique_ptr<Stream> connection, std::unique_ptr<SharedMemory> memory, int end);

}  // namespace tutti::rpc
