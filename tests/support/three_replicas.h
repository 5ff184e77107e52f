#pragma once

#include <gtest/gtest.h>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {

// A strategy of three devices, and an end to tests that hang.
class ThreeReplicas : public testing::Test {
 protected:
  static int replica() { return get_replica_context().replica_id_in_sync_group(); }

  const Watchdog watchdog{std::chrono::seconds(60)};
  MirroredStrategy strategy{{.devices = test_devices(3)}};
};

}  // namespace tutti
