#include "tutti/data/input_context.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

int64_t InputContext::get_per_replica_batch_size(int64_t global_batch_size) const {
  if (num_replicas_in_sync < 1 || global_batch_size % num_replicas_in_sync != 0)
    throw Error(ErrorCode::invalid_argument, str("get_per_replica_batch_size: a global batch of ", global_batch_size,
                                                 " for ", num_replicas_in_sync, " replicas; it must divide evenly"));
  return global_batch_size / num_replicas_in_sync;
}

}  // namespace tutti::data
