#include "tutti/data/input_options.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

void check_input_options(const char* call, const InputOptions& options, bool per_replica) {
  const bool asks_for_it = options.replication_mode == InputReplicationMode::per_replica;
  if (asks_for_it && !per_replica)
    throw Error(ErrorCode::unimplemented,
                str(call,
                    ": InputReplicationMode::per_replica; only distribute_datasets_from_function of a "
                    "MirroredStrategy has it"));
  if (options.place_dataset_on_device && (!asks_for_it || options.fetch_to_device))
    throw Error(ErrorCode::invalid_argument,
                str(call,
                    ": place_dataset_on_device; it requires InputReplicationMode::per_replica, and "
                    "fetch_to_device = false"));
  if (options.per_replica_buffer_size < 1)
    throw Error(ErrorCode::invalid_argument,
                str(call, ": per_replica_buffer_size ", options.per_replica_buffer_size, "; it must be at least 1"));
}

}  // namespace tutti::data
