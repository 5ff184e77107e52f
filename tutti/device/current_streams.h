#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/SmallVector.h>

#include "tutti/device/gpu.h"

namespace tutti {

// The calling thread's current streams of all GPUs, for another thread that computes for it: with a
// c10::MultiStreamGuard of them that one's work comes behind the caller's, and the caller's behind that, whichever GPUs
// it reads and writes. Empty where there is no GPU.
inline c10::SmallVector<c10::Stream, 8> current_streams() {
  c10::SmallVector<c10::Stream, 8> streams;
  for (int gpu = 0, gpus = num_gpus(); gpu < gpus; ++gpu)
    streams.push_back(c10::impl::VirtualGuardImpl(gpu_device(gpu).type()).getStream(gpu_device(gpu)));
  return streams;
}

}  // namespace tutti
