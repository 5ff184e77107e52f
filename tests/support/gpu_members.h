#pragma once

#include <chrono>

#include "tests/support/group_members.h"

namespace tutti {

// Whether LibTorch sees a GPU: asked in a process of its own, since one that has asked cannot fork any that use it.
bool a_process_sees_a_gpu();

// Members that are processes and add by NCCL on the first GPU, each as if it were on a host of its own: NCCL takes no
// GPU for two members of one host. What is run on them in host memory is copied to the GPU, and back.
Groups nccl_of_processes(int size, std::chrono::milliseconds timeout);

}  // namespace tutti
