#include "tutti/device/logical_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <thread>

#include "tests/support/error_of.h"
#include "tutti/core/error.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The devices are the process's, and a test binary is one process: each test asks only for what it made itself.

std::string not_found_message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(LogicalDevices, ThereIsOnePhysicalCpu) {
  EXPECT_EQ(list_physical_devices(DeviceType::cpu), std::vector<Device>{"CPU:0"});
  EXPECT_EQ(list_physical_devices().front(), Device("CPU:0"));
  EXPECT_TRUE(list_physical_devices(DeviceType::tpu).empty());
  EXPECT_GE(list_logical_devices(DeviceType::gpu).size(), list_physical_devices(DeviceType::gpu).size());
}

TEST(LogicalDevices, CpusGrowAtAnyTimeAndNeverShrink) {
  const std::vector<Device> three = {"CPU:0", "CPU:1", "CPU:2"};
  EXPECT_EQ(configure_logical_cpus(3), three);
  const size_t num_cpus = list_logical_devices(DeviceType::cpu).size();
  EXPECT_GE(num_cpus, 3U);
  EXPECT_EQ(configure_logical_cpus(1), std::vector<Device>{"CPU:0"});
  EXPECT_EQ(list_logical_devices(DeviceType::cpu).size(), num_cpus);
  EXPECT_EQ(configure_logical_devices("CPU:0", {{}, {}, {}}), three);
  EXPECT_EQ(configure_logical_cpus(40).back(), Device("CPU:39"));
}

TEST(LogicalDevices, ImpossibleCountsAreRefused) {
  for (const int n : {0, -1, 1025, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()})
    EXPECT_EQ(code_of([n] { configure_logical_cpus(n); }), ErrorCode::invalid_argument) << n;
  EXPECT_EQ(code_of([] { configure_logical_devices("CPU:0", {}); }), ErrorCode::invalid_argument);
  const std::vector<LogicalDeviceOptions> too_many(2000);
  EXPECT_EQ(code_of([&] { configure_logical_devices("CPU:0", too_many); }), ErrorCode::invalid_argument);
}

TEST(LogicalDevices, AMemoryLimitIsRefusedNotIgnored) {
  EXPECT_EQ(code_of([] { configure_logical_devices("CPU:0", {{.memory_limit_bytes = 1 << 20}}); }),
            ErrorCode::unimplemented);
}

TEST(LogicalDevices, OnlyPhysicalDevicesCanBeSplit) {
  configure_logical_cpus(2);
  EXPECT_THAT(not_found_message([] { configure_logical_devices("CPU:1", {{}}); }),
              AllOf(HasSubstr("no physical device /device:CPU:1"), HasSubstr("/device:CPU:0")));
  EXPECT_THAT(not_found_message([] { configure_logical_devices("GPU:77", {{}}); }), HasSubstr("/device:GPU:77"));
  EXPECT_THAT(not_found_message([] { configure_logical_devices("TPU:0", {{}}); }), HasSubstr("/device:TPU:0"));
}

TEST(LogicalDevices, LocalhostIsThisProcess) {
  EXPECT_EQ(require_logical_device("/job:localhost/replica:0/task:0/device:CPU:0"), Device("CPU:0"));
  EXPECT_EQ(require_logical_device("CPU:0"), Device("CPU:0"));
}

TEST(LogicalDevices, AMissingDeviceIsNamedWithWhatThereIsAndHowToMakeMore) {
  EXPECT_THAT(not_found_message([] { require_logical_device("CPU:1000"); }),
              AllOf(HasSubstr("no logical device /device:CPU:1000"), HasSubstr("[/device:CPU:0"),
                    HasSubstr("configure_logical_cpus(n)")));
  for (const char* text : {"GPU:77", "TPU:0", "/job:worker/task:0/device:CPU:0", "/task:1/CPU:0", "/replica:1/CPU:0"})
    EXPECT_THAT(not_found_message([text] { require_logical_device(text); }), HasSubstr(to_string(Device(text))));
  EXPECT_THAT(not_found_message([] { require_logical_device({DeviceType::cpu, -1}); }), HasSubstr("CPU:-1"));
}

TEST(LogicalDevices, LogicalCpusShareTheHostsMemory) {
  configure_logical_cpus(3);
  EXPECT_EQ(physical_index("CPU:2"), 0);
  EXPECT_TRUE(share_memory("CPU:0", "CPU:2"));
  EXPECT_THAT(not_found_message([] { share_memory("CPU:0", "CPU:1001"); }), HasSubstr("CPU:1001"));
}

TEST(LogicalDevices, PartsOfOneGpuShareItsMemory) {
  if (list_physical_devices(DeviceType::gpu).empty()) GTEST_SKIP() << "no GPU here";
  const std::vector<Device> parts = configure_logical_devices("GPU:0", {{}, {}});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0], Device("GPU:0"));
  EXPECT_EQ(physical_index(parts[1]), 0);
  EXPECT_TRUE(share_memory(parts[0], parts[1]));
  EXPECT_FALSE(share_memory(parts[0], "CPU:0"));
}

TEST(LogicalDevices, CanBeConfiguredFromManyThreads) {
  std::vector<std::jthread> threads;
  for (int n = 1; n <= 8; ++n)
    threads.emplace_back([n] {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(configure_logical_cpus(50 + n).size(), static_cast<size_t>(50 + n));
    });
}

}  // namespace
}  // namespace tutti
