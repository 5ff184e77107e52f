#pragma once

#include "tutti/distribute/local_strategy.h"

namespace tutti {

// One replica on the device that is named: the program of many devices, to be tried on one.
// TF: tf.distribute.OneDeviceStrategy.
class OneDeviceStrategy final : public LocalStrategy {
 public:
  // Throws: not_found for a device that does not exist.
  explicit OneDeviceStrategy(const Device& device) : LocalStrategy("OneDeviceStrategy", {device}, {}) {}
};

}  // namespace tutti
