#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tutti/tensor/updates/fused_update.h"

namespace tutti {

struct BufferSum;
struct MeshShape;
using Tensor = at::Tensor;

// What an update does to the gradient and the variable before its rule.
struct UpdateScaling {
  double gradient_scale = 1;
  double gradient_limit;
  double variable_scale = 1;
};

// Appends what fused_update() needs for a variable: its buffers, the gradient's and the slots'. A gradient whose
// elements lie in another order than the variable's is copied, to `copies`. From here on a write is under way: what
// replicas see of the variable is dropped, and its version goes up. False, and nothing was done, for more than
// kMaxUpdateSlots slots, or where a buffer of one of them lies elsewhere than in_host_buffers() says.
bool add_buffer_updates(const Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                        const UpdateScaling& scaling, std::vector<BufferUpdate>& updates, std::vector<Tensor>& copies);
// The same for the rows of a gradient that is a sparse, coalesced tensor of one sparse dimension, where the rule leaves
// an element without a gradient as it is: those of other rows are not looked at. False also where the variable is not
// whole in each of its buffers, row by row.
bool add_row_updates(const Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                     const UpdateScaling& scaling, std::vector<BufferUpdate>& updates, std::vector<Tensor>& copies);
// Ends the write, once the updates were made.
void finish_buffer_updates(const Tensor& variable);

// A gradient as its variable's update wants it: on the variable's mesh and in its layout, or plain where that is plain.
Tensor in_layout_of(const Tensor& variable, Tensor gradient);
// The sum of what replicas left of a gradient, as a replicated value of their mesh: where the reduction gave each
// device a copy, that is the device's component, and nothing moves.
Tensor on_mesh(const MeshShape* shape, BufferSum& sum);
// The same, dense, for the update of a variable; plain where that is, or where the devices got no copies.
Tensor gradient_for(const Tensor& variable, BufferSum& sum);

}  // namespace tutti
