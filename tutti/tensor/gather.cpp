// The collectives that a program asks for by name, with their gradients.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/placement.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

Tensor relayout_value(const Tensor& tensor, const Spec* to, const char* cause) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto& impl = mesh_impl(tensor);
  return make_mesh_tensor(to, Relayout(impl.spec(), to, cause, Asked::explicitly).run(impl.read()));
}

Tensor gather_value(const Tensor& tensor) {
  auto& impl = mesh_impl(tensor);
  if (impl.whole()) return impl.read()[0];
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Spec* to = intern_replicated(impl.mesh_shape(), impl.sizes());
  return Relayout(impl.spec(), to, "gather", Asked::explicitly).run(impl.read())[0];
}

const Spec* spec_from(int64_t address) { return reinterpret_cast<const Spec*>(static_cast<uintptr_t>(address)); }
int64_t address_of(const Spec* spec) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(spec)); }

struct RelayoutFunction : torch::autograd::Function<RelayoutFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& tensor, int64_t to) {
    context->saved_data["from"] = address_of(mesh_impl(tensor).spec());  // specs are never freed
    return relayout_value(tensor, spec_from(to), "relayout");
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const Tensor& gradient = gradients[0];
    const Spec* spec = spec_from(context->saved_data["from"].toInt());
    if (!is_mesh_tensor(gradient)) return {gradient, Tensor()};
    return {relayout_value(gradient, intern(spec->shape, spec->axes, 0, spec->sizes), "relayout"), Tensor()};
  }
};

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& tensor) {
    context->saved_data["from"] = address_of(mesh_impl(tensor).spec());
    return gather_value(tensor).alias();
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const Spec* spec = spec_from(context->saved_data["from"].toInt());
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (is_mesh_tensor(gradients[0])) return {gradients[0]};
    return {make_mesh_tensor(intern(spec->shape, spec->axes, 0, spec->sizes),
                             cut(gradients[0], intern(spec->shape, spec->axes, 0, spec->sizes)))};
  }
};

void require_global_view(const char* function) {
  if (const int replica = ThreadView::current().replica; replica >= 0)
    throw Error(ErrorCode::failed_precondition, str(function, ": called by replica ", replica,
                                                    "; it is for global view. local() gives a replica its part"));
}

}  // namespace

Tensor gather(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return tensor;
  require_global_view("gather");
  if (at::GradMode::is_enabled() && tensor.requires_grad()) return GatherFunction::apply(tensor);
  return gather_value(tensor);
}

Tensor relayout(const Tensor& tensor, const Layout& layout) {
  if (!is_mesh_tensor(tensor)) return distribute_tensor(tensor, layout);
  require_global_view("relayout");
  const MeshShape* shape = mesh_impl(tensor).mesh_shape();
  if (MeshShape::of(layout.mesh()) != shape || layout.rank() != tensor.dim())
    throw Error(ErrorCode::invalid_argument,
                str("relayout: a tensor ", layout_of(tensor).to_string(), " on ", shape->mesh.to_string(), " to ",
                    layout.to_string(), " on ", layout.mesh().to_string(), "; mesh and rank must be the same"));
  const Spec* to = spec_of("relayout", layout.matched(layout_of(tensor)), tensor.sizes());
  if (to == mesh_impl(tensor).spec()) return tensor;
  return RelayoutFunction::apply(tensor, address_of(to));
}

}  // namespace tutti
