#pragma once

#include <span>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

// Elsewhere: in memory that is absent here (tensor/absent_memory.h), without the initial values.
enum class SlotValues { here, elsewhere };

// For each variable one tensor per initial value, filled with it: of the variable's shape, dtype and layout, on its
// devices. Those of one initial value are views of one buffer for each device and dtype, in the order of the variables.
std::vector<std::vector<Tensor>> make_slot_buffers(std::span<const Tensor> variables,
                                                   std::span<const double> initial_values,
                                                   SlotValues where = SlotValues::here);

}  // namespace tutti
