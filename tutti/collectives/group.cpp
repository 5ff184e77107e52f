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
  execute(call);
}

}  // namespace tutti
