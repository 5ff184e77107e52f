// What there is to run on: printed, so that figures can be told apart.
#include <ATen/detail/CUDAHooksInterface.h>

#include <cstdio>

#include "gpu_test.h"
#include "tutti/collectives/nccl/library.h"

namespace tutti::gpu {
namespace {

class Facts : public GpuTest {};

TEST_F(Facts, OfTheMachine) {
  const bool is_cuda = gpu_device(0).is_cuda();
  std::printf("LibTorch %s\n%s\n", TORCH_VERSION,
              is_cuda ? at::detail::getCUDAHooks().showConfig().c_str() : "simulated");
  std::printf("GPUs: %s\n", str_list(list_physical_devices(DeviceType::gpu)).c_str());
  EXPECT_EQ((torch::ones({3}, on_gpu()) + 1).sum().item<float>(), 6);
}

TEST_F(Facts, OfNccl) {
  const nccl::Library& library = nccl::load();
  std::printf("NCCL %s of %s\n", nccl::version_text(library.version).c_str(), library.path.c_str());
  EXPECT_GE(library.version, 21400);
}

TEST_F(Facts, DeviceNamesThatDoNotExist) { EXPECT_THROW(OneDeviceStrategy("GPU:77"), Error); }

}  // namespace
}  // namespace tutti::gpu
