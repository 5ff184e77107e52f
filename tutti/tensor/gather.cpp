// The collectives that a program asks for by name, with their gradients.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/remote_reads.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/strides.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

Tensor relayout_value(const Tensor& tensor, const Spec* to, const char* cause) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto& impl = mesh_impl(tensor);
  const Components& components = impl.read_here();
  return make_mesh_tensor(to, Relayout::of(impl.spec(), to, cause)->run(impl.meta(), components),
                          strides_of_copy(tensor));
}

Tensor whole_buffer(const Tensor& tensor) {
  auto& impl = mesh_impl(tensor);
  if (impl.whole()) return impl.read()[0];
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Components& components = impl.read_here();
  const Spec* to = intern_replicated(impl.mesh_shape(), impl.sizes());
  const auto relayout = Relayout::of(impl.spec(), to, "gather");
  if (!impl.mesh_shape()->merged()) return relayout->run(impl.meta(), components)[0];
  relayout->record(impl.dtype().itemsize());
  return components[0];
}

// A tensor of its own in that memory: a program may change its shape in place.
Tensor gather_value(const Tensor& tensor) {
  const Tensor buffer = whole_buffer(tensor);
  auto* impl = buffer.unsafeGetTensorImpl();
  return Tensor(impl->shallow_copy_and_detach(c10::VariableVersion(impl->version_counter()), true));
}

struct RelayoutFunction : torch::autograd::Function<RelayoutFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& tensor, int64_t to) {
    context->saved_data["from"] = address_of(mesh_impl(tensor).spec());
    return relayout_value(tensor, spec_at(to), "relayout");
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const Tensor& gradient = gradients[0];
    const Spec* spec = spec_at(context->saved_data["from"].toInt());
    const Spec* to = intern(spec->shape, spec->axes, 0, spec->sizes);
    if (!is_mesh_tensor(gradient) || mesh_impl(gradient).spec() == to) return {gradient, Tensor()};
    return {apply(gradient, address_of(to)), Tensor()};
  }
};

// The gradient of gather: a plain tensor's pieces.
struct CutFunction : torch::autograd::Function<CutFunction> {
  static Tensor forward(AutogradContext*, const Tensor& value, int64_t to) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Spec* spec = spec_at(to);
    return make_mesh_tensor(spec, cut(value, spec), value.strides());
  }
  static tensor_list backward(AutogradContext*, tensor_list gradients) { return {gather(gradients[0]), Tensor()}; }
};

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& tensor) {
    const Spec* from = mesh_impl(tensor).spec();
    context->saved_data["to"] = address_of(intern(from->shape, from->axes, 0, from->sizes));
    return gather_value(tensor);
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    if (is_mesh_tensor(gradients[0])) return {gradients[0]};
    return {CutFunction::apply(gradients[0], context->saved_data["to"].toInt())};
  }
};

}  // namespace

Tensor gather(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return tensor;
  require_global_view("gather", "local() gives a replica its part");
  if (RemoteReads* const reads = RemoteReads::current()) reads->read(tensor);
  std::optional<c10::impl::ExcludeDispatchKeyGuard> outside_of_scopes;  // what is made on the way lies on no mesh
  if (ThreadView::current().scope) outside_of_scopes.emplace(kFrontKey);
  if (at::GradMode::is_enabled() && tensor.requires_grad()) return GatherFunction::apply(tensor);
  return gather_value(tensor);
}

Tensor relayout(const Tensor& tensor, const Layout& layout) {
  if (!is_mesh_tensor(tensor)) return distribute_tensor(tensor, layout);
  require_global_view("relayout", "local() gives a replica its part");
  const MeshShape* shape = mesh_impl(tensor).mesh_shape();
  if (MeshShape::of(layout.mesh()) != shape || layout.rank() != tensor.dim())
    throw Error(ErrorCode::invalid_argument,
                str("relayout: a tensor ", layout_of(tensor).to_string(), " on ", shape->mesh.to_string(), " to ",
                    layout.to_string(), " on ", layout.mesh().to_string(), "; mesh and rank must be the same"));
  if (layout.unreduced() & ~mesh_impl(tensor).spec()->unreduced)  // also where merged buffers would not know of it
    throw Error(ErrorCode::invalid_argument, str("relayout: from layout ", layout_of(tensor).to_string(), " to ",
                                                 layout.to_string(), ": a value cannot be made a sum of terms"));
  const Spec* to = spec_of("relayout", layout.matched(layout_of(tensor)), tensor.sizes());
  if (to == mesh_impl(tensor).spec()) return tensor;
  return RelayoutFunction::apply(tensor, address_of(to));
}

}  // namespace tutti
