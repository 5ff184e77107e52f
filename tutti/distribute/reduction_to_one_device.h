#pragma once

#include <functional>
#include <optional>

#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

struct ReductionToOneDeviceOptions {
  std::optional<Device> reduce_to_device = {};  // default: the first destination
  // Adds up the values, which lie on that device; default: one after the other.
  std::function<Tensor(const std::vector<Tensor>& values)> accumulation_fn = {};
};

// Copies all values to one device, reduces them there, and copies the result to the destinations.
// TF: tf.distribute.ReductionToOneDevice.
class ReductionToOneDevice final : public CrossDeviceOps {
 public:
  // Throws: not_found for a device that does not exist.
  explicit ReductionToOneDevice(ReductionToOneDeviceOptions options = {});

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> requests) const override;

 private:
  ReductionToOneDeviceOptions options_;
};

}  // namespace tutti
