#include "tutti/distribute/initial_values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

bool is_on_read(const MeshTensorImpl& impl) {
  const auto* values = impl.replica_values();
  return values && values->policy() && values->policy()->on_read();
}

// The buffers that hold the value: of a variable that is on_read each replica's.
Components buffers_of(const at::Tensor& tensor, bool to_write) {
  auto& impl = mesh_impl(tensor);
  if (is_on_read(impl)) {
    Components own;
    for (const at::Tensor& component : replica_components(tensor)) own.push_back(component.detach());
    return own;
  }
  return to_write ? impl.overwrite() : impl.read();
}

void finish_write(const at::Tensor& tensor, const Components& buffers) {
  for (size_t i = 1; i < buffers.size(); ++i)
    if (!are_aliases(buffers[i], buffers[0])) buffers[i].copy_(buffers[0]);
  auto& impl = mesh_impl(tensor);
  if (!impl.is_inference()) impl.bump_version();
  if (!is_on_read(impl)) impl.finish_write();
}

}  // namespace

void InitialValues::settle() {
  if (!any_made()) return;
  const GlobalViewGuard global_view;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> tensors = take_living();
  std::vector<at::Tensor> first;
  std::vector<Components> buffers;
  for (const at::Tensor& tensor : tensors) {
    buffers.push_back(buffers_of(tensor, !processes_->is_chief()));
    first.push_back(buffers.back()[0]);
  }
  broadcast_tensors(*processes_, first, "initial values");
  if (processes_->is_chief()) return;
  for (size_t i = 0; i < tensors.size(); ++i) finish_write(tensors[i], buffers[i]);
}

}  // namespace tutti
