#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tutti/device/device.h"

namespace tutti {

// On what tests run. The environment variable TUTTI_TEST_DEVICE says it:
//   cpu   parts of the CPU; so too where it is unset
//   cpu_and_gpu   the same; for tests that name GPUs themselves
//   gpu   parts of GPU:0, in whose memory all of them lie
//   gpus  as many GPUs as there are, each with a memory of its own; parts of them if more devices are wanted
// A GPU is LibTorch's; where that has none, a simulated device (simulated_accelerator.h), between which NCCL adds if
// TUTTI_NCCL_LIBRARY names tests/nccl/fake_nccl.cpp, build/release/tests/libfake_nccl.so; its kernels are late
// (simulated_kernels.h) if TUTTI_TEST_LATE_KERNELS is set.
//
// On GPUs LibTorch's factory functions make what a test asks for on the thread's current GPU, unless it names a device:
// LibTorch itself would make it on the CPU, and few programs want that. It is so on the thread that runs the tests, and
// in replicas. at::empty() and at::tensor() stay on the CPU: moved(at::tensor({1, 2})).
std::vector<Device> test_devices(int n);

// Where plain tensors lie that the tests hold values to: the CPU, or the first of the GPUs.
c10::Device test_torch_device();

// The tensor on the thread's current GPU; on CPUs itself.
at::Tensor moved(const at::Tensor& tensor);

// Whether these are the CPU and nothing else: what lies in host memory is looked at there, functions are recorded.
bool test_devices_are_cpus();

}  // namespace tutti
