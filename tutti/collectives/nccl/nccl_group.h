#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>

#include "tutti/cluster/environment.h"
#include "tutti/collectives/group.h"

namespace tutti {

struct NcclGroupOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(300);  // how long a member waits for the others
};

// This member of the companion's group as one whose calls in the memory of `device` NCCL makes; the companion makes the
// calls in host memory. All members call it, each with a device of its own, and it returns when all have joined.
//
// For a call in device memory the members first meet by the companion, which compares what they are about to do and
// names those that do not come. NCCL then does it on the calling thread's current stream of the device, behind all that
// the stream was given before (a CollectiveQueue's thread has a current stream of its own); the call returns when the
// stream has done it. Whoever waits for that looks at NCCL and at the other members: what NCCL fails with, a member
// that is lost, or the deadline ends the group, for all members.
//
// Sums are as NCCL takes them: on all members the same bits, in every run, but not in the order of the ranks; 16-bit
// numbers are rounded at each step; a sum that is divided adds inputs that were multiplied by 1 / divisor. int16 moves
// and is not added.
//
// Throws: not_found and failed_precondition as nccl::load, and where another member could not load it or has another
// version; not_found for a device that LibTorch does not see; failed_precondition for a device that two members have;
// deadline_exceeded; as Group::run of the companion.
std::unique_ptr<Group> nccl_group(std::unique_ptr<Group> companion, c10::Device device,
                                  const NcclGroupOptions& options = {},
                                  const cluster::Environment& environment = cluster::Environment::of_process());

}  // namespace tutti
