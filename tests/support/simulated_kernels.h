#pragma once

namespace tutti {

// Registers LibTorch's ops on simulated devices: the CPU's kernels on what those see of the devices' memory
// (simulated_memory.h). As on CUDA, operands must lie on one device, but for numbers of no axes and indices; a device's
// op draws from a device's generator; results lie on the operands' device. A kernel ends before the call returns, and
// begins when all that is on the device's current stream has ended. But a copy from pinned memory that nobody has to
// wait for is given to that stream.
void register_simulated_kernels();

// How many copies were made from one device to another.
int num_copies_between_simulated_devices();

// What autocast does to ops on simulated devices: what it does to CUDA's.
void register_simulated_autocast();

}  // namespace tutti
