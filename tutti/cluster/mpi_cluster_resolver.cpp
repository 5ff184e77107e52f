#include "tutti/cluster/mpi_cluster_resolver.h"

#include "tutti/core/error.h"

namespace tutti::cluster {

MpiClusterResolver::MpiClusterResolver(const Environment& environment)
    : ClusterResolver([&] {
        const bool is_open_mpi = environment.has("OMPI_COMM_WORLD_SIZE") || environment.has("OMPI_COMM_WORLD_RANK");
        const char* rank_name = is_open_mpi ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK";
        const char* size_name = is_open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE";
        for (const char* name : {rank_name, size_name})
          if (!environment.has(name))
            throw Error(ErrorCode::failed_precondition,
                        str(name, " is not set: mpirun sets ", rank_name, " and ", size_name, " together"));
        const int size = environment.integer(size_name, 1, kMaxTasks);
        const int rank = environment.integer(rank_name, 0, size - 1);
        return Found{.spec = ClusterSpec::of_size("worker", size), .task_type = "worker", .task_id = rank};
      }()) {}

}  // namespace tutti::cluster
