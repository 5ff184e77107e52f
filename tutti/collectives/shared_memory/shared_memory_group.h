#pragma once

#include <chrono>
#include <memory>

#include "tutti/collectives/group.h"
#include "tutti/core/file_descriptor.h"

namespace tutti {

struct SharedMemoryGroupOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(300);  // how long a member waits for the others
};

// Memory in which the processes of one host make a group of `size`: a file descriptor for them to inherit (it is closed
// by exec() unless the caller says otherwise). It has no name, and it is gone with the last process that has it.
// Throws: invalid_argument for a size that no group has, resource_exhausted.
FileDescriptor create_group_memory(int size);

// This process as a member of the group in that memory. The descriptor may be closed afterwards. A process that ends,
// whatever ends it, is a lost member: those that wait for it, or come to, throw unavailable within 30 ms.
// Either all members finish a call or none does, up to what one that fails has written to its own output. A call that
// all have come to, to a sum in shared buffers the second time, is finished, by lost members too.
// Throws: invalid_argument for a descriptor of anything else and a rank that is not there, already_exists for a rank
// that is taken.
std::unique_ptr<Group> shared_memory_group(int memory, int rank, const SharedMemoryGroupOptions& options = {});

}  // namespace tutti
