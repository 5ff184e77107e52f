#pragma once

#include <c10/core/Device.h>

#include "tutti/device/logical_devices.h"

namespace tutti {

// The LibTorch device that a logical device is part of. Throws: not_found; unimplemented for a TPU.
c10::Device torch_device(const Device& device);

}  // namespace tutti
