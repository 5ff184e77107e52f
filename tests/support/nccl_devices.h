#pragma once

namespace tutti {

// Lets tests/nccl/fake_nccl.cpp, as the loader knows it, see the simulated devices and their memory.
void show_simulated_devices_to(void* fake_nccl);

}  // namespace tutti
