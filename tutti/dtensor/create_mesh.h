#pragma once

#include <vector>

#include "tutti/device/device_list.h"
#include "tutti/device/logical_devices.h"
#include "tutti/mesh/layout.h"

namespace tutti::dtensor {

using tutti::kMatch;
using tutti::kUnsharded;
using tutti::Layout;
using tutti::Mesh;

struct CreateMeshOptions {
  DeviceList devices = list_logical_devices(DeviceType::cpu);  // of one type
  MeshOptions mesh = {};                                       // its name, and where values are stored
};

// The mesh of these dimensions over all the devices, one dimension of size -1 taking what the others leave. The default
// is all devices in one dimension "x".
// Throws: invalid_argument for devices of several types, sizes that do not make the number of devices, or two of -1;
// else as Mesh. TF: dtensor.create_mesh.
Mesh create_mesh(std::vector<MeshDimension> dimensions = {{"x", -1}}, CreateMeshOptions options = {});

}  // namespace tutti::dtensor
