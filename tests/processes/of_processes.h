#pragma once

#include <gtest/gtest.h>

#include <chrono>

#include "tests/processes/by_environment.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/multi_worker_mirrored_strategy.h"

namespace tutti {

constexpr int kDevices = 2;

inline const CommunicationOptions kCommunication{.timeout = std::chrono::seconds(20),
                                                 .implementation = implementation_by_environment()};

// The strategy of several processes, and one of this process with as many replicas. A test that hangs ends the process,
// and with it the others.
class OfProcesses : public testing::Test {
 protected:
  int size() const { return strategy.processes()->size(); }
  int rank() const { return strategy.processes()->rank(); }

  const Watchdog watchdog{std::chrono::seconds(60)};
  MultiWorkerMirroredStrategy strategy{
      {.devices = configure_logical_cpus(kDevices), .communication_options = kCommunication}};
  MirroredStrategy one_process{{.devices = configure_logical_cpus(kDevices * size())}};
};

}  // namespace tutti
