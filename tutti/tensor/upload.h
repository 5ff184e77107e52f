#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace tutti {

// Copies values from the host to one device, beside what the device computes: on a stream of its own, from pinned
// memory, so that neither the host nor the stream that computes waits for what the other has yet to do.
class Upload {
 public:
  explicit Upload(c10::Device device);

  // The value on the device, to be used on the calling thread's current stream, which waits for the copy; of a value
  // that is not dense in host memory, or needs a gradient, what to() returns. Any thread may call.
  at::Tensor operator()(const at::Tensor& value) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // none for the CPU
};

}  // namespace tutti
