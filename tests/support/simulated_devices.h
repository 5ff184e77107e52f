#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <vector>

#include "tests/support/simulated_stream.h"

// Devices of LibTorch's kind PrivateUse1 with streams and events; memory and kernels are simulated_accelerator.h's. A
// stream is a thread that does one thing after the other, a little late at times.
namespace tutti {

constexpr int kSimulatedDevices = 9;

// The device of this index. The first call registers them with LibTorch.
c10::Device simulated_device(int index);

// The index of the calling thread's current device.
int current_simulated_device();

// The calling thread's current stream of this device.
c10::Stream current_simulated_stream(int device);

// One of the two streams of a device that are nobody's but a program's.
c10::Stream simulated_stream_of_program(int device, int index);

// Returns when all that the calling thread's current stream of this device was given has been done.
void wait_for_current_stream(int device);

// Has a stream do this, when it has done all that it was given before.
void give_stream(c10::Stream stream, std::function<void()> work);

// Calls `work` when these streams have done all that they were given: at once where they have.
void when_done(std::vector<c10::Stream> streams, std::function<void()> work);

}  // namespace tutti
