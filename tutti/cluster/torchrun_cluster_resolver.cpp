#include "tutti/cluster/torchrun_cluster_resolver.h"

#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

struct TorchrunNames {
  const char *rank, *size, *address, *port, *set_by;
};
constexpr TorchrunNames kTorchrun{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "torchrun"};
constexpr TorchrunNames kTrainer{"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT",
                                 "Kubeflow's Trainer"};

}  // namespace

TorchrunClusterResolver::TorchrunClusterResolver(const Environment& environment)
    : ClusterResolver([&] {
        const bool is_run = environment.has("RANK") || environment.has("WORLD_SIZE");
        const TorchrunNames& names = is_run ? kTorchrun : kTrainer;
        for (const char* name : {names.rank, names.size, names.address, names.port})
          if (!environment.has(name))
            throw Error(ErrorCode::failed_precondition,
                        str(name, " is not set: ", names.set_by, " sets ", names.rank, ", ", names.size, ", ",
                            names.address, " and ", names.port, " together"));
        const int size = environment.integer(names.size, 1, kMaxTasks);
        const int rank = environment.integer(names.rank, 0, size - 1);
        std::vector<std::string> addresses(static_cast<size_t>(size));
        addresses[0] = str(environment.text(names.address), ':', environment.integer(names.port, 1, 65'535));
        check_told_address(names.address, {"worker", 0}, addresses[0]);
        return Found{.spec = ClusterSpec({{"worker", addresses}}), .task_type = "worker", .task_id = rank};
      }()) {}

}  // namespace tutti::cluster
