// What the tests of this folder share. They need a GPU that LibTorch sees, or a simulated one
// (TUTTI_TEST_DEVICE=cpu_and_gpu); without, each is skipped, and counted.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <string>
#include <vector>

#include "tests/support/watchdog.h"
#include "tutti/device/gpu.h"
#include "tutti/device/gpu_graph.h"

namespace tutti::gpu {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (list_physical_devices(DeviceType::gpu).empty()) GTEST_SKIP() << "needs a GPU";
    torch::manual_seed(0);
  }
  const Watchdog watchdog{std::chrono::seconds(60)};
};

// n logical parts of the first GPU.
inline std::vector<Device> parts(int n) {
  return configure_logical_devices("GPU:0", std::vector<LogicalDeviceOptions>(static_cast<size_t>(n)));
}

inline torch::TensorOptions on_gpu() { return torch::TensorOptions(gpu_device(0)); }

// Whether what a GPU computes can be a graph here: on a simulated one, or with the module for CUDA's.
inline bool has_graphs() {
  try {
    GpuGraph::require();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Where the program without Tutti runs: on the GPU, or, where that is simulated, on the CPU, whose kernels a simulated
// one has. LibTorch's Module::to cannot move to such a device.
inline c10::Device device_of_plain() { return gpu_device(0).is_cuda() ? gpu_device(0) : c10::Device(c10::kCPU); }

// The value on the host.
inline Tensor on_host(const Tensor& tensor) { return gather(tensor.detach()).cpu(); }

inline void expect_bits(const Tensor& seen, const Tensor& wanted, const std::string& of) {
  EXPECT_TRUE(torch::equal(on_host(seen), on_host(wanted)))
      << of << " differs by at most "
      << (on_host(seen).to(torch::kDouble) - on_host(wanted).to(torch::kDouble)).abs().max().item<double>();
}

inline void expect_near(const Tensor& seen, const Tensor& wanted, double tolerance, const std::string& of) {
  EXPECT_TRUE(torch::allclose(on_host(seen), on_host(wanted), tolerance, tolerance))
      << of << " differs by at most "
      << (on_host(seen).to(torch::kDouble) - on_host(wanted).to(torch::kDouble)).abs().max().item<double>();
}

}  // namespace tutti::gpu
