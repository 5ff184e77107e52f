#include "tutti/distribute/destinations.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

Destinations::Destinations(std::vector<Device> devices)
    : devices_(std::make_shared<const std::vector<Device>>(std::move(devices))) {
  if (devices_->empty())
    throw Error(ErrorCode::invalid_argument,
                "destinations: the list of devices is empty; name at least one, such as \"CPU:0\"");
}

std::vector<Device> Destinations::devices_of(const Tensor& like) {
  if (is_mesh_tensor(like)) return mesh_impl(like).mesh_shape()->mesh.devices();
  if (like.is_cpu()) return {Device(DeviceType::cpu, 0)};
  if (is_gpu(like.device()))
    for (const Device& gpu : list_logical_devices(DeviceType::gpu))
      if (physical_index(gpu) == like.device().index()) return {gpu};
  throw Error(ErrorCode::not_found,
              str("destinations: a tensor on ", like.device().str(), " lies on no logical device; name the devices"));
}

}  // namespace tutti
