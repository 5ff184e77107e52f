#pragma once

#include <c10/core/Device.h>

#include "tests/support/simulated_stream.h"

// Devices of LibTorch's kind PrivateUse1 with streams and events; memory and kernels are simulated_accelerator.h's. A
// stream is a thread that does one thing after the other, a little late at times.
namespace tutti {

constexpr int kSimulatedDevices = 9;

// The device of this index. The first call registers them with LibTorch.
c10::Device simulated_device(int index);

// The index of the calling thread's current device.
int current_simulated_device();

// Returns when all that the calling thread's current stream of this device was given has been done.
void wait_for_current_stream(int device);

}  // namespace tutti
