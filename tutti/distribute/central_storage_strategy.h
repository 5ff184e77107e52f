#pragma once

#include <optional>

#include "tutti/distribute/local_strategy.h"

namespace tutti {

struct CentralStorageStrategyOptions {
  DeviceList compute_devices = DeviceList::available();
  std::optional<Device> parameter_device = {};  // default: the compute device, if it is the only one; else CPU:0
};

// Synchronous training where every variable lies on one device, and other devices compute. Replicas read copies of a
// parameter, and what they want to change is aggregated first and then done once: an in-place write to a read copy is
// an error. Buffers (BatchNorm's statistics) are each replica's own until they are read in global view. TF:
// tf.distribute.experimental.CentralStorageStrategy.
class CentralStorageStrategy final : public LocalStrategy {
 public:
  // Throws: invalid_argument for an empty list or a device listed twice; not_found for a device that does not exist.
  explicit CentralStorageStrategy(CentralStorageStrategyOptions options = {});

  // Where the variables lie.
  const Device& parameter_device() const { return *mesh().options().home; }
};

}  // namespace tutti
