#include "tutti/tensor/view_replay.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/variable.h>

#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

// LibTorch's kernels of views look at the thread's state when the view is made. The program has it back then.
class ViewReplayGuard {
 public:
  ViewReplayGuard() { state().set_view_replay_enabled(true); }
  ~ViewReplayGuard() { state().set_view_replay_enabled(before_); }
  ViewReplayGuard(const ViewReplayGuard&) = delete;
  ViewReplayGuard& operator=(const ViewReplayGuard&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }

  bool before_ = state().get_view_replay_enabled();
};

// In the place of LibTorch's kernel for autograd, which it calls.
void view_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Tensor& base = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
  const auto of_all_devices = keys.remove(kMeshAutogradKey) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
  if (!is_mesh_tensor(base) || (mesh_impl(base).whole() && !is_remade_view(base)))
    return op.redispatchBoxed(of_all_devices, stack);
  const ViewReplayGuard replay;
  op.redispatchBoxed(of_all_devices, stack);
}

}  // namespace

bool is_remade_view(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return false;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  return meta && meta->has_bw_view() && meta->get_backward_view().has_view_fn();
}

void register_view_replay() {
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || is_composed(*op) || !op->hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::Autograd) || !OperatorInfo(*op).is_view)
      continue;
    autograd.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&view_kernel>());
  }
}

}  // namespace tutti
