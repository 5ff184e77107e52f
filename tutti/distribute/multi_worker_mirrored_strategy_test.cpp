#include "tutti/distribute/multi_worker_mirrored_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_by_nccl(const DeviceList& devices) {
  return error_of([&] {
    MultiWorkerMirroredStrategy(
        {.devices = devices, .communication_options = {.implementation = CommunicationImplementation::nccl}});
  });
}

TEST(MultiWorkerMirroredStrategy, RefusesNcclForWhatIsNoGpu) {
  EXPECT_EQ(error_by_nccl({"CPU:0"}),
            "invalid_argument: MultiWorkerMirroredStrategy: CommunicationImplementation::nccl adds in the memory of "
            "GPUs, and /device:CPU:0 is none; give it GPUs, or take auto_");
}

TEST(MultiWorkerMirroredStrategy, RefusesNcclForAGpuThatIsNotThere) {
  const auto num_gpus = static_cast<int>(list_logical_devices(DeviceType::gpu).size());
  EXPECT_THAT(error_by_nccl({Device(DeviceType::gpu, num_gpus)}), StartsWith("not_found"));
  EXPECT_THAT(error_by_nccl({Device(DeviceType::gpu, num_gpus)}), HasSubstr(std::to_string(num_gpus)));
}

}  // namespace
}  // namespace tutti
