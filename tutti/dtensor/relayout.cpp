#include "tutti/dtensor/relayout.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/view.h"

namespace tutti::dtensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Of a gradient of this tensor: as the tensor, but no sum of terms; null for a plain tensor.
const Spec* gradient_spec(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return nullptr;
  const Spec* spec = mesh_impl(tensor).spec();
  return intern(spec->shape, spec->axes, 0, spec->sizes);
}

Tensor copied(const Tensor& tensor, const Spec* to);

struct CopyFunction : torch::autograd::Function<CopyFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& tensor, int64_t to) {
    context->saved_data["from"] = address_of(gradient_spec(tensor));
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Tensor value = gather(tensor);
    return to ? distribute_tensor(value, spec_at(to)->layout()) : value.clone();
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    return {copied(gradients[0], spec_at(context->saved_data["from"].toInt())), Tensor()};
  }
};

// From one mesh to another by way of the whole value, or from or, with `to` null, to a plain tensor.
Tensor copied(const Tensor& tensor, const Spec* to) { return CopyFunction::apply(tensor, address_of(to)); }

void refuse_sum(const char* function, const Layout& layout) {
  if (layout.unreduced())
    throw Error(ErrorCode::invalid_argument, str(function, ": layout ", layout.to_string(),
                                                 "; a value is not a sum of terms. pack() takes the terms"));
}

}  // namespace

Tensor shard(const Tensor& value, const Layout& layout) {
  require_global_view("shard");
  if (is_mesh_tensor(value))
    throw Error(ErrorCode::invalid_argument,
                str("shard: the value is a mesh tensor already, in layout ", layout_of(value).to_string(), " on ",
                    layout_of(value).mesh().to_string(), "; relayout() it, or copy_to_mesh()"));
  refuse_sum("shard", layout);
  return copied(value, spec_of("shard", layout, value.sizes()));
}

Tensor copy_to_mesh(const Tensor& tensor, const Layout& layout) {
  require_global_view("copy_to_mesh");
  if (is_mesh_tensor(tensor) && layout_of(tensor).mesh() == layout.mesh()) return tutti::relayout(tensor, layout);
  refuse_sum("copy_to_mesh", layout);
  return copied(tensor, spec_of("copy_to_mesh", layout, tensor.sizes()));
}

Tensor relayout_like(const Tensor& tensor, const Tensor& like) {
  if (!is_mesh_tensor(like))
    throw Error(ErrorCode::invalid_argument, "relayout_like: the tensor to be like is a plain one, without a layout");
  const Layout layout = layout_of(like);
  return copy_to_mesh(tensor, Layout(layout.sharding_specs(), layout.mesh()));
}

}  // namespace tutti::dtensor
