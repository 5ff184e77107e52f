#pragma once

#include <ATen/core/Tensor.h>

#include <source_location>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/device/device.h"

namespace tutti {

using Tensor = at::Tensor;

// A variable, and the line of user code that names it.
struct VariableAt {
  VariableAt(const Tensor& variable, std::source_location location = std::source_location::current())
      : variable(variable), location(location) {}

  Tensor variable;
  std::source_location location;
};

// How many components Strategy::update of a strategy on these devices writes: one of a plain tensor.
// Throws: failed_precondition for a variable that lies on other devices; invalid_argument in a replica.
int num_components(const VariableAt& at, const std::vector<Device>& devices);

// Outside of replicas: calls f(component, replica) for each component of a variable, without a graph or a scope. The
// next read looks at what f wrote.
void update_components(const Tensor& variable, FunctionRef<void(const Tensor& component, int replica)> f);

}  // namespace tutti
