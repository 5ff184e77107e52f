#include "tutti/collectives/shared_memory/launched_group.h"

#include "tutti/cluster/launch_record.h"
#include "tutti/cluster/roles.h"
#include "tutti/core/error.h"
#include "tutti/core/file_descriptor.h"

namespace tutti {

std::unique_ptr<Group> launched_group(const SharedMemoryGroupOptions& options,
                                      const cluster::Environment& environment) {
  if (!environment.has("TUTTI_CLUSTER"))
    throw Error(ErrorCode::failed_precondition,
                "this process has no group: it was not started by `tutti launch`, which sets TUTTI_CLUSTER");
  const auto record = cluster::LaunchRecord::parse(environment.text("TUTTI_CLUSTER"));
  if (record.memory < 0)
    throw Error(
        ErrorCode::failed_precondition,
        str(to_string(record.task), " does not train together with the workers, and has no part in their group"));
  auto group = shared_memory_group(record.memory, id_in_cluster(record.spec, record.task), options);
  const FileDescriptor inherited(record.memory);  // mapped now; whatever this process starts is not to have it
  const int size = worker_count(record.spec, record.task.type);
  if (group->size() != size)
    throw Error(ErrorCode::invalid_argument,
                str("TUTTI_CLUSTER speaks of ", size, " that train together, the memory is of ", group->size()));
  return group;
}

}  // namespace tutti
