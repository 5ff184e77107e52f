#pragma once

#include <span>

#include "tutti/distribute/cross_device_ops.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {

// Sets the result of each item as sum_buffers does, but by cross-device ops, as an all-reduce over the devices of all
// replicas: a gradient that a replica lacks is zero. The result lies on the first replica's device, the copies on those
// of the others. The items are all sums or all means.
void reduce_gradients(const CrossDeviceOps& ops, const Destinations& devices, std::span<BufferSum> items);

}  // namespace tutti
