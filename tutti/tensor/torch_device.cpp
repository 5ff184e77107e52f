#include "tutti/tensor/torch_device.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"

namespace tutti {

c10::Device torch_device(const Device& device) {
  switch (device.type) {
    case DeviceType::cpu: return c10::Device(c10::kCPU);
    case DeviceType::gpu: return gpu_device(physical_index(device));
    case DeviceType::tpu: break;
  }
  throw Error(ErrorCode::unimplemented, str("device ", device, ": LibTorch tensors cannot lie on a TPU yet"));
}

}  // namespace tutti
