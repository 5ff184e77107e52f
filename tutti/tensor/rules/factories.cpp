// Tensors made for the sake of another one, which gives dtype and device, and where sizes agree the layout: LibTorch's
// formulas fill them from it in place.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using at::IValue;
using MadeResults = std::optional<std::vector<IValue>>;

// The layout of a new tensor: from the first axis on and from the last back, axes as long as self's are sharded as
// they.
AxisMap layout_like(const Spec& self, at::IntArrayRef sizes) {
  AxisMap axes = unsharded(static_cast<int64_t>(sizes.size()));
  const size_t shared = std::min(sizes.size(), self.sizes.size());
  const auto follow = [&](size_t axis, size_t of_self) {
    if (sizes[axis] != self.sizes[of_self]) return false;
    const int8_t dimension = self.axes[of_self];
    if (std::find(axes.begin(), axes.end(), dimension) == axes.end()) axes[axis] = dimension;
    return true;
  };
  for (size_t i = 0; i < shared && follow(i, i); ++i) continue;
  for (size_t i = 1; i <= shared && follow(sizes.size() - i, self.sizes.size() - i); ++i) continue;
  return axes;
}

// new_zeros(self, size), new_empty(self, size)
bool new_like(Planner& p) {
  const at::DimVector sizes = p.integers(1);
  const AxisMap axes = layout_like(*p.spec(0), sizes);
  p.operand(0, p.spec(0)->axes);
  p.result(axes, sizes);
  p.local_sizes(1, axes, sizes);
  return true;
}

// new_ones(self, size), new_full(self, size, value): replicated.
bool new_whole(Planner& p) {
  p.operand(0, p.spec(0)->axes);
  p.result(static_cast<int64_t>(p.integers(1).size()));
  return true;
}

// new_empty_strided(self, size, stride) of merged buffers
bool new_empty_strided(Planner& p) {
  const Spec* self = p.spec(0);
  const at::DimVector sizes = p.integers(1);
  p.operand(0, self->axes);
  p.result(self->sizes == sizes ? self->axes : unsharded(static_cast<int64_t>(sizes.size())), sizes);
  return true;
}

std::vector<IValue> call_factory(const char* name, std::vector<IValue> arguments) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(arguments);
  return arguments;
}

// One buffer, however many pieces self has.
template <const char* const& kName>
MadeResults decompose_new(at::ArrayRef<IValue> a) {
  auto& self = mesh_impl(a[0].toTensor());
  std::vector<IValue> arguments(a.begin(), a.end());
  arguments[0] = at::empty({0}, self.meta().options());
  return std::vector<IValue>{
      make_mesh_tensor(self.mesh_shape(), call_factory(kName, std::move(arguments))[0].toTensor())};
}

// The same where the result would be replicated.
template <const char* const& kName>
MadeResults decompose_new_like(at::ArrayRef<IValue> a) {
  const at::DimVector sizes = a[1].toDimVector();
  if (layout_like(*mesh_impl(a[0].toTensor()).spec(), sizes) != unsharded(static_cast<int64_t>(sizes.size())))
    return {};
  return decompose_new<kName>(a);
}

constexpr const char* kEmpty = "aten::new_empty";
constexpr const char* kZeros = "aten::new_zeros";
constexpr const char* kOnes = "aten::new_ones";
constexpr const char* kFull = "aten::new_full";
constexpr const char* kEmptyStrided = "aten::new_empty_strided";

// A tensor of self's sizes is laid out as self, with the strides' order of axes in each piece.
MadeResults decompose_new_empty_strided(at::ArrayRef<IValue> a) {
  const Tensor& self = a[0].toTensor();
  if (self.sizes() != at::IntArrayRef(a[1].toDimVector())) return decompose_new<kEmptyStrided>(a);
  const at::DimVector strides = a[2].toDimVector();
  at::DimVector order(strides.size()), inverse(strides.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto stride = [&](int64_t axis) { return strides[static_cast<size_t>(axis)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return stride(x) > stride(y); });
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const auto made =
      call_factory("aten::empty_like", {self.permute(order), a[3], a[4], a[5], a[6], at::MemoryFormat::Contiguous});
  return std::vector<IValue>{made[0].toTensor().permute(inverse)};
}

}  // namespace

void add_factory_rules(RuleTable& table) {
  table["new_empty"] = table["new_zeros"] = {new_like, SizeArguments::rewritten};
  table["new_ones"] = table["new_full"] = {new_whole, SizeArguments::unaffected};
  table["new_empty_strided"] = {new_empty_strided, SizeArguments::unaffected};
}

void add_factory_decompositions(DecompositionTable& table) {
  table["new_empty"] = decompose_new_like<kEmpty>;
  table["new_zeros"] = decompose_new_like<kZeros>;
  table["new_ones"] = decompose_new<kOnes>;
  table["new_full"] = decompose_new<kFull>;
  table["new_empty_strided"] = decompose_new_empty_strided;
}

}  // namespace tutti
