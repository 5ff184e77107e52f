#include "tutti/device/gpu.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tutti {

int num_gpus() { return at::accelerator::deviceCount(); }

c10::Device gpu_device(int index) {
  return {at::getAccelerator(/*checked=*/true).value(), static_cast<c10::DeviceIndex>(index)};
}

bool is_gpu(c10::Device device) { return !device.is_cpu() && at::getAccelerator() == device.type(); }

int current_gpu() { return num_gpus() > 0 ? at::accelerator::getDeviceIndex() : -1; }

void enter_gpu(c10::Device gpu) {
  thread_local std::bitset<std::numeric_limits<c10::DeviceIndex>::max() + 1> entered;
  const auto index = static_cast<size_t>(static_cast<uint8_t>(gpu.index()));
  if (entered.test(index)) return;
  const c10::impl::VirtualGuardImpl devices(gpu.type());
  devices.queryStream(devices.getStream(gpu));  // any call will do
  entered.set(index);
}

}  // namespace tutti
