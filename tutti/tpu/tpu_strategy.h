#pragma once

#include <memory>
#include <optional>

#include "tutti/cluster/cluster_resolver.h"
#include "tutti/cluster/device_assignment.h"
#include "tutti/cluster/tpu_cluster_resolver.h"
#include "tutti/distribute/compiled_strategy.h"
#include "tutti/distribute/local_strategy.h"
#include "tutti/tpu/traffic.h"

namespace tutti {

class ProgramCompiler;

namespace tpu {
class DeviceMemory;
}  // namespace tpu

struct TPUStrategyOptions {
  // Which core each replica has; one core each. Default: every device of this host is a replica.
  std::optional<tpu::DeviceAssignment> device_assignment = {};
};

// Synchronous training on the TPUs of this host, or on whatever devices the PJRT plugin has: each is a replica. What
// runs there are functions (tutti::function): their calls of run are recorded on the host, which has a CPU for each
// device to that end, and compiled; the third call runs on the devices, and each one after. Variables go there with the
// first such call and stay until global view reads or writes them. devices() are the host's. See docs/tpu.md.
// TF: tf.distribute.TPUStrategy.
class TPUStrategy final : public LocalStrategy, public CompiledStrategy {
 public:
  // Throws: failed_precondition before tpu::initialize_tpu_system; unimplemented for another host's TPU and for
  // replicas of several cores.
  explicit TPUStrategy(const cluster::ClusterResolver& resolver = cluster::TPUClusterResolver({.tpu = "local"}),
                       const TPUStrategyOptions& options = {});
  ~TPUStrategy() override;

  // Bytes that went to the devices and came from them so far.
  tpu::Traffic traffic() const;

 private:
  struct Devices;
  explicit TPUStrategy(Devices devices);
  // Throws: unimplemented outside of a function.
  void run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) override;

  std::shared_ptr<tpu::DeviceMemory> memory_;  // null: of devices that are only planned
  std::shared_ptr<ProgramCompiler> compiler_;
};

}  // namespace tutti
