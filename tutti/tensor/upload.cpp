#include "tutti/tensor/upload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tutti/tensor/host_memory.h"

namespace tutti {

Upload::Upload(c10::Device device) : device_(device) {
  if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

at::Tensor Upload::operator()(const at::Tensor& value) const {
  const bool needs_graph = value.requires_grad() && at::GradMode::is_enabled();
  if (!stream_ || needs_graph || value.numel() == 0 || !dense_in_host_memory(value)) return value.to(device_);
  const c10::Stream computes = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  at::Tensor copy;
  c10::Event copied(device_.type());
  {
    const c10::StreamGuard guard(*stream_);
    copy = at::empty_strided(value.sizes(), value.strides(), value.options().device(device_));
    copy.copy_(value.pin_memory(), /*non_blocking=*/true);
    copied.record(*stream_);
  }
  copied.block(computes);
  copy.record_stream(computes);  // its memory is not given away before that has read it
  return copy;
}

}  // namespace tutti
