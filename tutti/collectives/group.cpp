#include "tutti/collectives/group.h"

#include "tutti/core/str.h"

namespace tutti {

void Group::run(const Collective& call) {
  check_collective(call, rank_, size_);
  if (call.place == BufferPlace::device && !device())
    throw Error(ErrorCode::unimplemented,
                str("rank ", rank_, " of ", size_, ", ", to_string(call),
                    ": this group moves host memory alone; copy the values there, or take "
                    "CommunicationImplementation::nccl"),
                call.where);
  if (call.place == BufferPlace::shared) require_shared(call);
  execute(call);
}

void Group::require_shared(const Collective& call) const {
  const bool sums_in_place = call.kind == CollectiveKind::all_reduce && call.input == call.output;
  const size_t room = shared_bytes(call.output);
  if (sums_in_place && room > 0 && room >= static_cast<size_t>(call.count) * size_of(call.dtype)) return;
  throw Error(ErrorCode::invalid_argument,
              str("rank ", rank_, " of ", size_, ", ", to_string(call),
                  ": what is done there is an all_reduce in place, of what begins with a buffer of the group's own"),
              call.where);
}

}  // namespace tutti
