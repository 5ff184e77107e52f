#include "tests/support/nccl_devices.h"

#include <dlfcn.h>

#include <stdexcept>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_memory.h"

namespace tutti {

void show_simulated_devices_to(void* fake_nccl) {
  using Show = void(int (*ask_device)(), void* (*see)(const void*), int (*place)(const void*));
  auto* const show = reinterpret_cast<Show*>(dlsym(fake_nccl, "fake_nccl_show_devices"));
  if (!show) throw std::invalid_argument("this is no fake NCCL, and no other can add in simulated memory");
  show(
      current_simulated_device, [](const void* pointer) -> void* { return seen_by_kernels(pointer); },
      simulated_device_of);
}

}  // namespace tutti
