#pragma once

#include <ATen/core/Generator.h>

namespace tutti {

// A new one.
at::Generator make_simulated_generator(int device, uint64_t seed);

// LibTorch's own one of this device.
const at::Generator& default_simulated_generator(int device);

// One of the CPU's for the numbers of the next op. Throws c10::Error, as CUDA's kernels do, unless it is a simulated
// device's.
at::Generator host_generator_of(const at::Generator& generator);

}  // namespace tutti
