#include "tutti/device/gpu.h"

#include <ATen/DeviceAccelerator.h>

namespace tutti {

int num_gpus() { return at::accelerator::deviceCount(); }

c10::Device gpu_device(int index) {
  return {at::getAccelerator(/*checked=*/true).value(), static_cast<c10::DeviceIndex>(index)};
}

bool is_gpu(c10::Device device) { return !device.is_cpu() && at::getAccelerator() == device.type(); }

int current_gpu() { return num_gpus() > 0 ? at::accelerator::getDeviceIndex() : -1; }

}  // namespace tutti
