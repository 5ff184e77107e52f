#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "tutti/cluster/rpc/stream.h"
#include "tutti/collectives/group.h"
#include "tutti/collectives/ring/ring_carrier.h"

namespace tutti {

struct RingGroupOptions {
  std::chrono::milliseconds timeout =
      std::chrono::seconds(300);  // how long a member waits for another one's next bytes
};

// Member `rank` of a group whose members have a stream to each other: `peers` has those by rank, none in its own place.
//
// A sum is cut into as many parts as there are members: each member gets its part of every input, sums it in rank order
// and gives the result to all. So each sends and receives 2 (n - 1) / n of the bytes, in two steps for any n, and
// inputs travel as they are: 16-bit numbers are rounded once, and the bits are those of shared memory. Sums of up to 32
// KiB take one step: all members get all inputs.
//
// A member that is lost during a call ends it for all; other than in shared memory, some may have finished that call.
// The bytes of a message have a checksum. With a `carrier` the streams carry none of them, only what becomes of the
// members. Throws: invalid_argument for a rank without peers to match.
std::unique_ptr<Group> ring_group(int rank, std::vector<std::unique_ptr<rpc::Stream>> peers,
                                  const RingGroupOptions& options = {}, std::unique_ptr<RingCarrier> carrier = nullptr);

}  // namespace tutti
