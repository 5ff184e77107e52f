#pragma once

#include <c10/core/Device.h>

namespace tutti {

// A GPU is a device of the kind that this process's LibTorch computes on beside the CPU, at::getAccelerator(): CUDA's
// in a CUDA build, or what a program registered with a CPU build. Nothing else in the library says which kind that is.

// How many LibTorch sees; 0 where it has no such kind, or no driver for it. Programs that register a kind do so before
// the first call of this library.
int num_gpus();

// The GPU of this index. Requires: num_gpus() > index.
c10::Device gpu_device(int index);

bool is_gpu(c10::Device device);

// The calling thread's current one, on which LibTorch makes what names no index; -1 where there is none.
int current_gpu();

// Before the calling thread computes there: libraries of CUDA want a context in each thread, which LibTorch makes one
// of later than the first product of matrices.
void enter_gpu(c10::Device gpu);

}  // namespace tutti
