#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tutti/device/device.h"

namespace tutti {

// A list of devices, or the wish for all there are.
class DeviceList {
 public:
  // Every GPU; the CPU where there is none.
  static DeviceList available();

  DeviceList() = default;  // an empty list, which no strategy takes
  DeviceList(std::vector<Device> devices) : devices_(std::move(devices)) {}
  DeviceList(std::initializer_list<Device> devices) : devices_(devices) {}

  const std::vector<Device>& devices() const { return devices_; }

 private:
  std::vector<Device> devices_;
};

}  // namespace tutti
