#include "tutti/tensor/updates/slot_buffers.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "tutti/tensor/absent_memory.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/updates/host_buffers.h"

namespace tutti {
namespace {

constexpr int64_t kAlignment = 64;  // bytes, at which each variable's part begins

// One buffer of one slot: all that lies on a device in a dtype.
struct FlatBuffer {
  at::TensorOptions options;
  int64_t count = 0;  // elements
  Tensor elements = {};

  bool holds(const Tensor& component) const {
    return options.device() == component.device() && options.dtype() == component.dtype();
  }
};

int64_t aligned_count(const Tensor& component) {
  const int64_t step = kAlignment / static_cast<int64_t>(component.element_size());
  return (component.numel() + step - 1) / step * step;
}

class FlatBuffers {
 public:
  FlatBuffers(std::span<const Tensor> variables, double initial_value, SlotValues where) {
    for (const Tensor& variable : variables)
      for (const Tensor& component : buffers_of(variable)) buffer_of(component).count += aligned_count(component);
    for (FlatBuffer& buffer : buffers_) {
      buffer.elements = where == SlotValues::here
                            ? at::full({buffer.count}, initial_value, buffer.options)
                            : absent_tensor({buffer.count}, buffer.options.dtype().toScalarType());
      buffer.count = 0;
    }
  }

  // The next part, in the component's geometry.
  Tensor take(const Tensor& component) {
    FlatBuffer& buffer = buffer_of(component);
    const int64_t begin = buffer.count;
    buffer.count += aligned_count(component);
    if (component.is_non_overlapping_and_dense())
      return buffer.elements.as_strided(component.sizes(), component.strides(), begin);
    return buffer.elements.narrow(0, begin, component.numel()).view(component.sizes());
  }

 private:
  FlatBuffer& buffer_of(const Tensor& component) {
    const auto found = std::ranges::find_if(buffers_, [&](const FlatBuffer& b) { return b.holds(component); });
    if (found != buffers_.end()) return *found;
    return buffers_.emplace_back(FlatBuffer{at::TensorOptions(component.device()).dtype(component.dtype())});
  }

  std::vector<FlatBuffer> buffers_;
};

Tensor make_slot(const Tensor& variable, FlatBuffers& buffers) {
  if (!is_mesh_tensor(variable)) return buffers.take(variable);
  const auto& impl = mesh_impl(variable);
  if (impl.whole()) return make_mesh_tensor(impl.mesh_shape(), buffers.take(impl.components()[0]));
  Components components;
  for (const Tensor& component : impl.components())
    components.push_back(component.defined() ? buffers.take(component) : Tensor());
  return make_mesh_tensor(impl.spec(), std::move(components));
}

}  // namespace

std::vector<std::vector<Tensor>> make_slot_buffers(std::span<const Tensor> variables,
                                                   std::span<const double> initial_values, SlotValues where) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;  // parts of a buffer, and no views to autograd
  std::vector<std::vector<Tensor>> slots(variables.size());
  for (const double initial_value : initial_values) {
    FlatBuffers buffers(variables, initial_value, where);
    for (size_t i = 0; i < variables.size(); ++i) slots[i].push_back(make_slot(variables[i], buffers));
  }
  return slots;
}

}  // namespace tutti
