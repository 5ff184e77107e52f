#include "tutti/tensor/updates/buffer_updates.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/strides.h"
#include "tutti/tensor/sum_buffers.h"
#include "tutti/tensor/updates/host_buffers.h"

namespace tutti {
namespace {

// Whether element i of the one buffer belongs to element i of the other.
bool lie_alike(const Tensor& a, const Tensor& b) { return are_same_strides(a.sizes(), a.strides(), b.strides()); }

bool are_alike(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

// Whether its buffers are such as the variable's, in host memory.
bool fits(const Tensor& other, const Tensor& variable) {
  return in_host_buffers(other) && std::ranges::equal(buffers_of(other), buffers_of(variable), are_alike);
}

bool are_updatable(const Tensor& variable, std::span<const Tensor> slots) {
  const auto is_slot = [&](const Tensor& slot) {
    return fits(slot, variable) && std::ranges::equal(buffers_of(slot), buffers_of(variable), lie_alike);
  };
  return slots.size() <= kMaxUpdateSlots && in_host_buffers(variable) && std::ranges::all_of(slots, is_slot);
}

void begin_write(const Tensor& variable) {
  if (is_mesh_tensor(variable)) mesh_impl(variable).write();
  if (!variable.is_inference()) variable.unsafeGetTensorImpl()->bump_version();
}

// Of the variable's buffer `i` and the slots'.
BufferUpdate update_of(const Tensor& target, std::span<const Tensor> slots, size_t i, const void* gradient,
                       const UpdateScaling& scaling) {
  BufferUpdate update{.dtype = target.scalar_type(),
                      .count = target.numel(),
                      .variable = target.mutable_data_ptr(),
                      .gradient = gradient,
                      .slots = {},
                      .gradient_scale = scaling.gradient_scale,
                      .gradient_limit = scaling.gradient_limit,
                      .variable_scale = scaling.variable_scale};
  for (size_t slot = 0; slot < slots.size(); ++slot) update.slots[slot] = buffers_of(slots[slot])[i].mutable_data_ptr();
  return update;
}

}  // namespace

bool add_buffer_updates(const Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                        const UpdateScaling& scaling, std::vector<BufferUpdate>& updates, std::vector<Tensor>& copies) {
  if (!are_updatable(variable, slots) || !fits(gradient, variable)) return false;
  begin_write(variable);
  const auto targets = buffers_of(variable), gradients = read_buffers_of(gradient);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Tensor& target = targets[i];
    const bool ordered = lie_alike(gradients[i], target);
    if (!ordered) copies.push_back(at::empty_like(target).copy_(gradients[i]));
    const Tensor& fitted = ordered ? gradients[i] : copies.back();
    updates.push_back(update_of(target, slots, i, fitted.const_data_ptr(), scaling));
  }
  return true;
}

bool add_row_updates(const Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                     const UpdateScaling& scaling, std::vector<BufferUpdate>& updates, std::vector<Tensor>& copies) {
  const Tensor rows = gradient.indices()[0].contiguous(), values = gradient.values().contiguous();
  const auto lies_in_rows = [&](const Tensor& target) {
    return target.sizes() == gradient.sizes() && target.is_contiguous() && target.scalar_type() == values.scalar_type();
  };
  if (!are_updatable(variable, slots) || !std::ranges::all_of(buffers_of(variable), lies_in_rows) ||
      !in_host_buffers(values))
    return false;
  begin_write(variable);
  copies.push_back(values);
  const auto targets = buffers_of(variable);
  const auto num_rows = static_cast<size_t>(rows.numel());
  const size_t row_bytes = num_rows > 0 ? values.nbytes() / num_rows : 0;
  const auto row_at = [&](void* buffer, size_t row) { return static_cast<std::byte*>(buffer) + row * row_bytes; };
  for (size_t i = 0; i < targets.size(); ++i) {
    const BufferUpdate whole = update_of(targets[i], slots, i, nullptr, scaling);
    for (size_t k = 0; k < num_rows; ++k) {
      const auto row = static_cast<size_t>(rows.const_data_ptr<int64_t>()[k]);
      BufferUpdate& update = updates.emplace_back(whole);
      update.count = static_cast<int64_t>(row_bytes / values.element_size());
      update.variable = row_at(whole.variable, row);
      update.gradient = static_cast<const std::byte*>(values.const_data_ptr()) + k * row_bytes;
      for (size_t slot = 0; slot < slots.size(); ++slot) update.slots[slot] = row_at(whole.slots[slot], row);
    }
  }
  return true;
}

void finish_buffer_updates(const Tensor& variable) {
  if (is_mesh_tensor(variable)) mesh_impl(variable).finish_write();
}

Tensor in_layout_of(const Tensor& variable, Tensor gradient) {
  if (!is_mesh_tensor(variable)) return is_mesh_tensor(gradient) ? gather(gradient) : gradient;
  const auto& target = mesh_impl(variable);
  if (!is_mesh_tensor(gradient) && target.whole()) return make_mesh_tensor(target.mesh_shape(), std::move(gradient));
  if (is_mesh_tensor(gradient)) {
    const auto& impl = mesh_impl(gradient);
    if ((impl.whole() && target.whole() && impl.mesh_shape() == target.mesh_shape()) || impl.spec() == target.spec())
      return gradient;
  }
  return relayout(gradient, layout_of(variable));
}

Tensor on_mesh(const MeshShape* shape, BufferSum& sum) {
  const Spec* const spec = intern_replicated(shape, sum.result.sizes());
  const auto is_copy_for = [&](size_t i) { return sum.copies[i - 1].device() == spec->device_of(static_cast<int>(i)); };
  bool is_everywhere = sum.copies.size() + 1 == static_cast<size_t>(spec->num_components);
  for (size_t i = 1; is_everywhere && i <= sum.copies.size(); ++i) is_everywhere = is_copy_for(i);
  if (sum.copies.empty() || !is_everywhere) return make_mesh_tensor(shape, std::move(sum.result));
  Components components{std::move(sum.result)};
  for (Tensor& copy : sum.copies) components.push_back(std::move(copy));
  return make_mesh_tensor(spec, std::move(components));
}

Tensor gradient_for(const Tensor& variable, BufferSum& sum) {
  if (sum.copies.empty() || !is_mesh_tensor(variable)) return std::move(sum.result);
  if (sum.result.is_sparse()) {
    sum.result = sum.result.to_dense();
    for (Tensor& copy : sum.copies) copy = copy.to_dense();
  }
  return on_mesh(mesh_impl(variable).mesh_shape(), sum);
}

}  // namespace tutti
