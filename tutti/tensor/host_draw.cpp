#include "tutti/tensor/host_draw.h"

#include "tutti/core/error.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {

at::Generator host_draw(at::Generator& of_gpu) {
  if (auto* const recorder = CallRecorder::current())
    recorder->refuse(
        Error(ErrorCode::unimplemented,
              "function: random numbers that a replica on a GPU draws on the host cannot be recorded; draw "
              "on the GPU, with x.options(), or draw outside and pass the numbers"));
  constexpr uint64_t kStep = 4;  // CUDA's offsets are its multiples
  const std::scoped_lock lock(of_gpu.mutex());
  const uint64_t offset = of_gpu.get_offset();
  of_gpu.set_offset(offset + kStep);
  return make_replica_generator(of_gpu.current_seed(), static_cast<int>(offset / kStep % INT32_MAX), at::kCPU);
}

}  // namespace tutti
