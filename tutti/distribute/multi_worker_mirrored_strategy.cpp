#include "tutti/distribute/multi_worker_mirrored_strategy.h"

#include <optional>

#include "tutti/cluster/environment.h"
#include "tutti/cluster/roles.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"

namespace tutti {
namespace {

// Whether the resolver speaks of one process.
bool is_alone(const cluster::ClusterResolver& resolver) {
  return resolver.cluster_spec().is_empty() ||
         cluster::worker_count(resolver.cluster_spec(), resolver.task_type()) <= 1;
}

void require_joined(const cluster::ClusterResolver& resolver, const std::shared_ptr<Processes>& processes) {
  const auto task = resolver.task();
  if (!processes || !processes->cluster() || processes->cluster()->spec() != resolver.cluster_spec() ||
      processes->cluster()->task() != task)
    throw Error(ErrorCode::unimplemented,
                str("MultiWorkerMirroredStrategy: the resolver speaks of ", task ? to_string(*task) : "no task", " of ",
                    to_string(resolver.cluster_spec()),
                    "; processes meet by what their launcher or TF_CONFIG says, which is something else here"));
}

// The GPU on which this process adds by NCCL, where that is asked for.
std::optional<int> gpu_for(const MultiWorkerMirroredStrategyOptions& options) {
  if (options.communication_options.implementation != CommunicationImplementation::nccl) return {};
  for (const Device& device : options.devices.devices()) {
    require_logical_device(device);
    if (device.type != DeviceType::gpu)
      throw Error(ErrorCode::invalid_argument,
                  str("MultiWorkerMirroredStrategy: CommunicationImplementation::nccl adds in the memory of GPUs, and ",
                      device, " is none; give it GPUs, or take auto_"));
  }
  if (options.devices.devices().empty()) return {};  // which is refused with other implementations too
  return physical_index(options.devices.devices().front());
}

std::shared_ptr<Processes> processes_for(const MultiWorkerMirroredStrategyOptions& options) {
  const std::optional<int> gpu = gpu_for(options);
  if (options.cluster_resolver && is_alone(*options.cluster_resolver)) return nullptr;
  auto processes = Processes::join(options.communication_options, options.connect_timeout, gpu);
  if (options.cluster_resolver) require_joined(*options.cluster_resolver, processes);
  return processes;
}

void require_equal_devices(Processes& processes, size_t num_devices) {
  ByteWriter own;
  own.number(static_cast<int64_t>(num_devices));
  const auto all = processes.gather(own.bytes(), "numbers of devices");
  for (int rank = 1; rank < processes.size(); ++rank) {
    const auto of = [&](int r) { return ByteReader(all[static_cast<size_t>(r)], "numbers of devices").number(); };
    if (of(rank) != of(0))
      throw Error(ErrorCode::invalid_argument,
                  str("MultiWorkerMirroredStrategy: ", processes.task_name(rank), " has ", of(rank), " devices, ",
                      processes.task_name(0), " has ", of(0), "; all processes must have as many"));
  }
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerMirroredStrategyOptions& options)
    : LocalStrategy(
          "MultiWorkerMirroredStrategy", options.devices, options.mesh,
          {.processes = processes_for(options), .bytes_per_pack = options.communication_options.bytes_per_pack}) {
  if (processes()) require_equal_devices(*processes(), devices().size());
}

std::shared_ptr<cluster::Cluster> MultiWorkerMirroredStrategy::cluster() const {
  return processes() ? processes()->cluster() : nullptr;
}

}  // namespace tutti
