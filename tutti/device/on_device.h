#pragma once

#include <c10/core/DeviceGuard.h>

namespace tutti {

// Until the end of the block LibTorch takes memory there: of a GPU, which is the thread's current one, or of the host.
class OnDevice {
 public:
  explicit OnDevice(c10::Device device) {
    if (!device.is_cpu()) guard_.reset_device(device);
  }

 private:
  c10::OptionalDeviceGuard guard_;
};

}  // namespace tutti
