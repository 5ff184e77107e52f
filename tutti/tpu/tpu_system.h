#pragma once

#include <filesystem>
#include <memory>

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/environment.h"
#include "tutti/cluster/tpu_topology.h"
#include "tutti/pjrt/named_values.h"

namespace tutti {

namespace pjrt {
class Client;
}

// Reaches the tasks of a cluster; a resolver without one, such as TPUClusterResolver's "local", has nothing to reach.
// Throws: unimplemented for a TPU behind an address. TF: tf.config.experimental_connect_to_cluster.
void connect_to_cluster(const cluster::ClusterResolver& resolver);

namespace tpu {

struct TpuSystemOptions {
  pjrt::NamedValues client_options = {};  // the plugin's
  // Of this host, for tests.
  cluster::Environment environment = cluster::Environment::of_process();
  std::filesystem::path root = "/";
};

// Takes the TPUs of this host, and wipes their memory. Comes first, and explicitly. Once more than once is a warning,
// and buffers that were made before are lost to programs that are run after. Throws: not_found where there is no TPU,
// after at most a second, with what was looked for; unimplemented for a TPU behind an address; the plugin's error. With
// TUTTI_PJRT_PLUGIN set, any plugin's devices are taken for TPUs; with TUTTI_PLAN_TPU set, none are there (tpu_plan.h).
// TF: tf.tpu.experimental.initialize_tpu_system.
Topology initialize_tpu_system(const cluster::ClusterResolver& resolver, const TpuSystemOptions& options = {});
// Gives them back when the last buffer and program on them ends. Without a system, a warning.
void shutdown_tpu_system();
// The devices. Throws: failed_precondition before initialize_tpu_system, or where they are only planned.
std::shared_ptr<pjrt::Client> tpu_client();
class PlannedTpu;
// Null where the system is a real one, or there is none.
std::shared_ptr<PlannedTpu> planned_tpu();

}  // namespace tpu
}  // namespace tutti
