#include "tests/support/simulated_accelerator.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/DeviceType.h>

#include <algorithm>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_generator.h"
#include "tests/support/simulated_graph.h"
#include "tests/support/simulated_kernels.h"
#include "tests/support/simulated_memory.h"
#include "tests/support/simulated_pinned.h"

namespace tutti {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kSimulatedDevices; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_simulated_device());
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_simulated_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_simulated_generator(device < 0 ? current_simulated_device() : device, c10::default_rng_seed_val);
  }
  at::Device getDeviceFromPtr(void* pointer) const override { return simulated_device(simulated_device_of(pointer)); }
  bool isPinnedPtr(const void* pointer) const override { return is_simulated_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &simulated_pinned_memory(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr memory = simulated_memory().allocate(size);
    if (storage.data() && memory.get())
      simulated_memory().copy_data(memory.get(), storage.data(), std::min(size, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(memory));
    storage.set_nbytes(size);
  }
};

}  // namespace

void register_simulated_accelerator() {
  static const bool once = [] {
    simulated_device(0);
    c10::register_privateuse1_backend("simulated");
    at::RegisterPrivateUse1HooksInterface(new Hooks);  // which LibTorch keeps
    c10::SetAllocator(c10::kPrivateUse1, &simulated_memory());
    register_simulated_kernels();
    register_simulated_autocast();
    register_simulated_graphs();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace tutti
