#pragma once

#include "tutti/distribute/local_strategy.h"

namespace tutti {

struct MirroredStrategyOptions {
  DeviceList devices = DeviceList::available();
  // How values are reduced, broadcast and gathered; default: in this process, in one pass over memory.
  SharedCrossDeviceOps cross_device_ops = {};
  MeshOptions mesh = {};  // the last field: GCC 12 warns where a field after an optional may throw
};

// Synchronous training on the devices of one process: each is a replica, variables are mirrored, and the gradients that
// the replicas compute on their parts of a batch are reduced before they are used. TF: tf.distribute.MirroredStrategy.
class MirroredStrategy final : public LocalStrategy {
 public:
  // Throws: invalid_argument for an empty list or a device listed twice; not_found for a device that does not exist.
  explicit MirroredStrategy(const MirroredStrategyOptions& options = {})
      : LocalStrategy("MirroredStrategy", options.devices, options.mesh, options.cross_device_ops) {}

 private:
  bool has_pipelines_of_replicas() const override { return true; }
};

}  // namespace tutti
