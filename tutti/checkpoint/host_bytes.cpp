#include "tutti/checkpoint/host_bytes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/resolve_conj.h>
#include <ATen/ops/resolve_neg.h>

#include "tutti/tensor/host_memory.h"

namespace tutti::checkpoint {

Tensor to_host(const Tensor& tensor) {
  if (in_host_memory(tensor) && tensor.is_contiguous()) return tensor;
  const at::NoGradGuard no_grad;
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

std::span<const std::byte> bytes_of(const Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
}

}  // namespace tutti::checkpoint
