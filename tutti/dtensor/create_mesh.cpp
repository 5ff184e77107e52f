#include "tutti/dtensor/create_mesh.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::dtensor {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "create_mesh: " + message);
}

void check_types(const std::vector<Device>& devices) {
  for (const Device& device : devices)
    if (device.type != devices.front().type)
      refuse(str("devices ", devices.front(), " and ", device, "; a mesh has devices of one type"));
}

// Gives the dimension of size -1, if there is one, what the others leave of the devices.
void resolve_sizes(std::vector<MeshDimension>& dimensions, int64_t num_devices) {
  MeshDimension* open = nullptr;
  int64_t rest = num_devices;
  for (MeshDimension& dimension : dimensions) {
    if (dimension.size == -1) {
      if (open) refuse(str("dimensions \"", open->name, "\" and \"", dimension.name, "\" both have size -1"));
      open = &dimension;
    } else if (dimension.size < 1 || rest % dimension.size != 0) {
      refuse(str("dimension \"", dimension.name, "\" of size ", dimension.size,
                 "; the product of all sizes must be the ", num_devices, " devices"));
    } else {
      rest /= dimension.size;
    }
  }
  if (open) open->size = rest;
}

}  // namespace

Mesh create_mesh(std::vector<MeshDimension> dimensions, CreateMeshOptions options) {
  const std::vector<Device>& devices = options.devices.devices();
  check_types(devices);
  if (!devices.empty()) resolve_sizes(dimensions, static_cast<int64_t>(devices.size()));
  return Mesh(std::move(dimensions), devices, std::move(options.mesh));
}

}  // namespace tutti::dtensor
