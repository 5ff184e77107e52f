#include "tutti/dtensor/dvariable.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/variable.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/dtensor/relayout.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/view.h"

namespace tutti::dtensor {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  const std::string quoted = name.empty() ? "" : " '" + name + "'";
  throw Error(ErrorCode::invalid_argument, str("DVariable", quoted, ": ", why));
}

bool is_float(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

// A copy of a plain value in the layout given, or in that of the call_with_layout around.
Tensor laid_out(const Tensor& initial, const DVariableOptions& options) {
  if (options.layout) return shard(initial, *options.layout);
  const auto* scope = ThreadView::current().scope;
  const Layout* layout = scope ? scope_layout(*scope, initial.dim()) : nullptr;
  if (!layout)
    refuse(options.name, str("the value, of shape ", str_list(initial.sizes()), ", is plain; give a layout"));
  return shard(initial, *layout);
}

// A copy of a value on a mesh.
Tensor kept(const Tensor& initial, const DVariableOptions& options) {
  const Layout actual = layout_of(initial);
  if (options.layout && !(*options.layout == actual))
    refuse(options.name, str("the value lies in ", actual.to_string(), " on ", actual.mesh().to_string(),
                             ", the layout given is ", options.layout->to_string(), " on ",
                             options.layout->mesh().to_string(), "; relayout() the value, or leave the layout out"));
  if (actual.unreduced()) refuse(options.name, str("the value is a sum not yet taken, ", actual.to_string()));
  return initial.clone();
}

Tensor made(const Tensor& initial, const DVariableOptions& options) {
  const bool is_differentiable = is_float(initial.scalar_type());
  if (options.requires_grad.value_or(false) && !is_differentiable)
    refuse(options.name, str("of ", at::toString(initial.scalar_type()), " needs no gradient"));
  const at::NoGradGuard no_grad;
  const Tensor value = initial.detach();
  Tensor tensor = is_mesh_tensor(value) ? kept(value, options) : laid_out(value, options);
  tensor.set_requires_grad(options.requires_grad.value_or(is_differentiable));
  if (!options.name.empty()) torch::autograd::impl::set_name(tensor, options.name);
  return tensor;
}

// A value as it is to be written to a variable.
Tensor fitted(const DVariable& variable, const Tensor& value, const char* function) {
  if (value.sizes() != variable.sizes() || value.scalar_type() != variable.scalar_type())
    refuse(variable.name(), str(function, ": a value of ", value.toString(), ' ', str_list(value.sizes()),
                                " for one of ", variable.toString(), ' ', str_list(variable.sizes())));
  const Layout layout = layout_of(variable);
  if (is_mesh_tensor(value) && !(layout_of(value).mesh() == layout.mesh()))
    refuse(variable.name(), str(function, ": a value on ", layout_of(value).mesh().to_string(), " for one on ",
                                layout.mesh().to_string(), "; copy_to_mesh() it"));
  return copy_to_mesh(value, layout);
}

}  // namespace

DVariable::DVariable(const Tensor& initial, DVariableOptions options) : Tensor(made(initial, options)) {}

Tensor DVariable::value() const { return clone(); }

const DVariable& DVariable::assign(const Tensor& value) const {
  const at::NoGradGuard no_grad;
  copy_(fitted(*this, value, "assign"));
  return *this;
}

const DVariable& DVariable::assign_add(const Tensor& value) const {
  const at::NoGradGuard no_grad;
  add_(fitted(*this, value, "assign_add"));
  return *this;
}

const DVariable& DVariable::assign_sub(const Tensor& value) const {
  const at::NoGradGuard no_grad;
  sub_(fitted(*this, value, "assign_sub"));
  return *this;
}

const DVariable& DVariable::assign(const at::Scalar& value) const {
  const at::NoGradGuard no_grad;
  fill_(value);
  return *this;
}

const DVariable& DVariable::assign_add(const at::Scalar& value) const {
  const at::NoGradGuard no_grad;
  add_(value);
  return *this;
}

const DVariable& DVariable::assign_sub(const at::Scalar& value) const {
  const at::NoGradGuard no_grad;
  sub_(value);
  return *this;
}

}  // namespace tutti::dtensor
