// What the tests of this folder share. They need a GPU that LibTorch sees; without one each is skipped, and counted.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <string>
#include <vector>

#include "tests/support/watchdog.h"

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

inline const auto kOnGpu = torch::TensorOptions(torch::kCUDA);

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
