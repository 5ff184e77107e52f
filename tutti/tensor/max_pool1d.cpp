#include "tutti/tensor/max_pool1d.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/max_pool1d_with_indices.h>

namespace tutti {

at::Tensor max_pool1d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "max_pool1d: not implemented for ", self.scalar_type());
  const at::Tensor result =
      std::get<0>(at::max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
  const bool needs_gradient = at::GradMode::is_enabled() && self.requires_grad();
  return needs_gradient ? result : result.contiguous().detach();  // where LibTorch gives no view
}

}  // namespace tutti
