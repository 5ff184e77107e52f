#include "tutti/device/device_list.h"

#include "tutti/device/logical_devices.h"

namespace tutti {

DeviceList DeviceList::available() {
  auto gpus = list_logical_devices(DeviceType::gpu);
  return gpus.empty() ? DeviceList{Device(DeviceType::cpu, 0)} : DeviceList(std::move(gpus));
}

}  // namespace tutti
