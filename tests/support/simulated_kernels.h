#pragma once

namespace tutti {

// Registers LibTorch's ops on simulated devices: the CPU's kernels on what those see of the devices' memory
// (simulated_memory.h). As on CUDA, operands must lie on one device, but for numbers of no axes and indices; a device's
// op draws from a device's generator; results lie on the operands' device. A kernel ends before the call returns, and
// begins when all that is on the device's current stream has ended. But a copy from pinned memory that nobody has to
// wait for is given to that stream.
void register_simulated_kernels();

// As long as one of these lives, kernels and copies between devices are given to the device's current stream, too, as
// CUDA's are: those whose results have a known geometry, and that draw nothing. Others wait for that stream alone. A
// copy between two devices begins when the current streams of both have come there, and both wait for it.
class KernelsAreLate {
 public:
  KernelsAreLate();
  ~KernelsAreLate();
  KernelsAreLate(const KernelsAreLate&) = delete;
};

bool kernels_are_late();

// How many kernels and copies were given to streams by that.
int num_late_kernels();

// How many copies were made from one device to another.
int num_copies_between_simulated_devices();

// What autocast does to ops on simulated devices: what it does to CUDA's.
void register_simulated_autocast();

}  // namespace tutti
