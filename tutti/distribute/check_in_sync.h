#pragma once

#include <ATen/core/Tensor.h>

#include <source_location>
#include <vector>

namespace tutti {

using Tensor = at::Tensor;

// Compares the components of a variable, or of each of several, such as a module's parameters. Mirrored components may
// come to differ where replicas write their own. Variables that are on_read, whose components differ by right, and
// plain tensors are passed over; not-a-numbers count as equal. In a replica's function: all replicas meet. Of several
// processes all call, and the first replicas are compared with the chief's. Throws:
// failed_precondition that names the variable, the first replica that differs from replica 0, and the first element in
// which it does.
void check_in_sync(const Tensor& variable, std::source_location location = std::source_location::current());
void check_in_sync(const std::vector<Tensor>& variables,
                   std::source_location location = std::source_location::current());

}  // namespace tutti
