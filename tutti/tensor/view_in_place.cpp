#include "tutti/tensor/view_in_place.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <algorithm>
#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/view.h"
#include "tutti/tensor/view_replay.h"

namespace tutti {
namespace {

using torch::autograd::CreationMeta;
using torch::autograd::DifferentiableViewMeta;
using torch::autograd::ViewInfo;
using torch::jit::Stack;

// What autograd knows of a view that it makes again by its op; null for other tensors.
const DifferentiableViewMeta* remade_view(const Tensor& tensor) {
  return is_remade_view(tensor) ? torch::autograd::impl::get_view_autograd_meta(tensor) : nullptr;
}

// Makes a tensor for autograd what another is, a view of the same base.
void take_place_in_graph(const Tensor& self, const Tensor& view) {
  const auto& meta = *torch::autograd::impl::get_view_autograd_meta(view);
  const ViewInfo& made = meta.get_backward_view();
  ViewInfo info(made.base_, made.view_fn().clone_and_set(), made.rev_view_fn());
  auto* impl = self.unsafeGetTensorImpl();
  auto taken = std::make_unique<DifferentiableViewMeta>(impl, std::move(info), std::nullopt, /*shared_view_info=*/true,
                                                        meta.get_creation_meta());
  taken->grad_fn_ = meta.grad_fn_;
  taken->output_nr_ = meta.output_nr_;
  impl->set_autograd_meta(std::move(taken));
}

bool is_view(const Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  return meta && meta->has_bw_view();
}

// Whether other tensors may have a part in its memory: its aliases have weak references to it, or its storages. Those
// of a whole value are made again by their places in memory, and those of a view by how they were made of its base.
bool may_have_remade_views(const Tensor& self) {
  if (mesh_impl(self).whole() || is_view(self)) return false;
  const auto& components = mesh_impl(self).components();
  const size_t own = CallRecorder::current() ? 2 : 1;  // a recorder keeps what calls have made
  return self.getIntrusivePtr().weak_use_count() > 1 ||
         std::any_of(components.begin(), components.end(), [own](const Tensor& component) {
           return component.defined() && component.storage().use_count() > own;
         });
}

// Views of a tensor are made again, of it as it then is, when their gradients are asked for.
void refuse_with_views(const c10::OperatorHandle& op, const Tensor& self) {
  if (!self.requires_grad() || !may_have_remade_views(self)) return;
  const std::string& name = op.schema().name();
  throw Error(ErrorCode::failed_precondition,
              str(name, " changes the shape of a tensor of shape ", str_list(self.sizes()),
                  " that needs a gradient and has views, whose gradients would be wrong; use ",
                  name.substr(0, name.size() - 1), ", or take the views afterwards"));
}

class ViewInPlace final : public c10::OperatorKernel {
 public:
  explicit ViewInPlace(const c10::OperatorHandle& view_form) : view_form_(view_form) {}

  // A lazy bit stays: LibTorch, which takes it for no view, would compute it, and copy that into the old shape.
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet all_keys, Stack* stack) {
    const c10::DispatchKeySet keys = all_keys - kLazyBits;
    const size_t first = stack->size() - op.schema().arguments().size();
    const Tensor self = (*stack)[first].toTensor();
    const auto* known = remade_view(self);
    if (!known) {
      refuse_with_views(op, self);
      const auto of_all_devices = c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
      return op.redispatchBoxed(keys.remove(kMeshAutogradKey) | of_all_devices, stack);
    }
    torch::autograd::check_inplace(self, torch::autograd::compute_requires_grad(self));
    self.unsafeGetTensorImpl()->bump_version();
    Stack view(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
    {
      const at::AutoGradMode as_it_was_made(known->get_creation_meta() != CreationMeta::NO_GRAD_MODE);
      view_form_.redispatchBoxed(keys, &view);
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
    }
    take_place_in_graph(self, view[0].toTensor());
  }

 private:
  c10::OperatorHandle view_form_;
};

}  // namespace

std::optional<c10::OperatorHandle> view_form_of(const c10::OperatorHandle& op) {
  if (!changes_geometry(op)) return {};
  const auto found = c10::Dispatcher::singleton().findSchema(name_of_view_form(op.operator_name()));
  return found && OperatorInfo(*found).is_view ? found : std::nullopt;
}

void register_views_in_place() {
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || is_composed(*op)) continue;
    if (const auto view_form = view_form_of(*op))
      autograd.impl(full_name(name).c_str(),
                    torch::CppFunction::makeFromBoxedFunctor(std::make_unique<ViewInPlace>(*view_form)));
  }
}

}  // namespace tutti
