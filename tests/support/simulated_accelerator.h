#pragma once

namespace tutti {

// Makes the simulated devices (simulated_devices.h) this process's accelerator, so that the library takes them for
// GPUs: with memory (simulated_memory.h), kernels (simulated_kernels.h), random numbers, pinned memory and autocast.
// Before the first backward pass, for which LibTorch starts a thread for each device, and before the library counts
// GPUs.
//
// It stands for a GPU in what a program may do with one, and where its tensors and numbers lie. It says nothing of
// CUDA's kernels: their roundings, strides of results, random numbers, or dtypes. Copies from pinned memory run late,
// and what others put on its streams; its kernels do where a test wants it (KernelsAreLate).
void register_simulated_accelerator();

}  // namespace tutti
