// Ops that select elements along an axis and say where they were: max, min, median, mode, kthvalue, topk, sort.
// LibTorch's gradient writes into a plain tensor of zeros, which would gather; these stay in the layout of the operand.
#include "tutti/tensor/selection.h"
#include "tutti/tensor/cut.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/kthvalue.h>
#include <ATen/ops/max.h>
#include <ATen/ops/median.h>
#include <ATen/ops/min.h>
#include <ATen/ops/mode.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <tuple>

#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using ValuesAndIndices = std::tuple<Tensor, Tensor>;
using Select = std::function<ValuesAndIndices(const Tensor& self)>;

// What becomes of the axis along which elements are selected.
enum class Axis : int64_t { removed, one_element, several_elements };

// 0, 1, … along `axis` of a tensor laid out as `spec`; the other axes have size 1.
Tensor positions(const Spec* spec, int64_t axis, at::TensorOptions options) {
  AxisMap dimensions = unsharded(spec->rank());
  at::DimVector sizes(spec->sizes.size(), 1);
  const auto at = static_cast<size_t>(axis);
  dimensions[at] = spec->axes[at];
  sizes[at] = spec->sizes[at];
  const Spec* alike = intern(spec->shape, dimensions, 0, sizes);
  return make_mesh_tensor(alike, cut(at::arange(sizes[at], options).view(sizes), alike));
}

struct Selection : torch::autograd::Function<Selection> {
  static tensor_list forward(AutogradContext* context, const Tensor& self, int64_t dim, Axis axis,
                             const Select& select) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [values, indices] = select(self);
    context->save_for_backward({indices});
    context->mark_non_differentiable({indices});
    context->saved_data["dim"] = dim < 0 ? dim + self.dim() : dim;
    context->saved_data["axis"] = static_cast<int64_t>(axis);
    context->saved_data["spec"] = address_of(mesh_impl(self).spec());
    return {values, indices};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto axis = static_cast<Axis>(context->saved_data["axis"].toInt());
    const int64_t dim = context->saved_data["dim"].toInt();
    const Spec* spec = spec_at(context->saved_data["spec"].toInt());
    Tensor gradient = gradients[0], indices = context->get_saved_variables()[0];
    if (spec->rank() == 0) return {gradient, {}, {}, {}};
    if (axis == Axis::removed) {
      gradient = gradient.unsqueeze(dim);
      indices = indices.unsqueeze(dim);
    }
    if (axis != Axis::several_elements)
      return {gradient.masked_fill(positions(spec, dim, indices.options()).ne(indices), 0), {}, {}, {}};
    const Tensor one = gradient.size(dim) > 0 ? gradient.narrow(dim, 0, 1) : gradient.sum(dim, /*keepdim=*/true);
    const Tensor zeros = at::zeros_like(one.expand(spec->sizes));
    return {at::scatter(zeros, dim, indices, gradient), {}, {}, {}};
  }
};

ValuesAndIndices selected(const Tensor& self, int64_t dim, Axis axis, const Select& select) {
  const tensor_list results = Selection::apply(self, dim, axis, select);
  torch::autograd::throw_error_for_complex_autograd(results[0], "selecting elements");
  return {results[0], results[1]};
}

Axis axis_of(bool keepdim) { return keepdim ? Axis::one_element : Axis::removed; }

template <ValuesAndIndices (*kOp)(const Tensor&, int64_t, bool)>
ValuesAndIndices one_along(const Tensor& self, int64_t dim, bool keepdim) {
  return selected(self, dim, axis_of(keepdim), [=](const Tensor& t) { return kOp(t, dim, keepdim); });
}

ValuesAndIndices kthvalue(const Tensor& self, c10::SymInt k, int64_t dim, bool keepdim) {
  return selected(self, dim, axis_of(keepdim),
                  [&](const Tensor& t) { return at::kthvalue_symint(t, k, dim, keepdim); });
}

ValuesAndIndices topk(const Tensor& self, c10::SymInt k, int64_t dim, bool largest, bool sorted) {
  return selected(self, dim, Axis::several_elements,
                  [&](const Tensor& t) { return at::topk_symint(t, k, dim, largest, sorted); });
}

ValuesAndIndices sort_values(const Tensor& self, int64_t dim, bool descending) {
  return selected(self, dim, Axis::several_elements, [=](const Tensor& t) { return at::sort(t, dim, descending); });
}

ValuesAndIndices stable_sort(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending) {
  return selected(self, dim, Axis::several_elements,
                  [=](const Tensor& t) { return at::sort(t, stable, dim, descending); });
}

}  // namespace

void register_selections() {
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  autograd.impl("max.dim", one_along<at::max>);
  autograd.impl("min.dim", one_along<at::min>);
  autograd.impl("median.dim", one_along<at::median>);
  autograd.impl("nanmedian.dim", one_along<at::nanmedian>);
  autograd.impl("mode", one_along<at::mode>);
  autograd.impl("kthvalue", kthvalue);
  autograd.impl("topk", topk);
  autograd.impl("sort", sort_values);
  autograd.impl("sort.stable", stable_sort);
}

}  // namespace tutti
