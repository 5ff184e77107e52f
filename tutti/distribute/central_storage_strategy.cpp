#include "tutti/distribute/central_storage_strategy.h"

namespace tutti {
namespace {

Device home(const CentralStorageStrategyOptions& options) {
  if (options.parameter_device) return *options.parameter_device;
  const auto& devices = options.compute_devices.devices();
  return devices.size() == 1 ? devices[0] : Device(DeviceType::cpu, 0);
}

}  // namespace

CentralStorageStrategy::CentralStorageStrategy(CentralStorageStrategyOptions options)
    : LocalStrategy("CentralStorageStrategy", options.compute_devices, {.home = home(options)}) {}

}  // namespace tutti
