#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/per_replica.h"
#include "tutti/core/str.h"
#include "tutti/device/device.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/tensor/view.h"

namespace tutti {

using Tensor = at::Tensor;

// A variable, and the line of user code that names it.
struct VariableAt {
  VariableAt(const Tensor& variable, std::source_location location = std::source_location::current())
      : variable(variable), location(location) {}

  Tensor variable;
  std::source_location location;
};

namespace component_update {

// How many components a strategy on these devices updates: one of a plain tensor.
// Throws: failed_precondition for a variable that lies on other devices; invalid_argument in a replica.
int count(const VariableAt& at, const std::vector<Device>& devices);

// Outside of replicas: calls f(component, replica) for each component of a variable, without a graph or a scope. The
// next read looks at what f wrote.
void for_each(const Tensor& variable, FunctionRef<void(const Tensor& component, int replica)> f);

template <class T>
const T& part(const T& value, int, int) {
  return value;
}
template <class T>
decltype(auto) part(const PerReplica<T>& values, int replica, int num_components) {
  if (values.size() != static_cast<size_t>(num_components))
    throw Error(ErrorCode::invalid_argument, str("update: an argument has values for ", values.size(),
                                                 " replicas; the variable has ", num_components, " components"));
  return values[static_cast<size_t>(replica)];
}

template <class F, class... Args>
auto call_each(const std::vector<Device>& devices, const VariableAt& variable, const F& f, const Args&... arguments) {
  using Result = std::decay_t<std::invoke_result_t<const F&, const Tensor&, decltype(part(arguments, 0, 0))...>>;
  [[maybe_unused]] const int components = count(variable, devices);
  const auto call_one = [&](const Tensor& component, [[maybe_unused]] int replica) -> Result {
    return f(component, part(arguments, replica, components)...);
  };
  if constexpr (std::is_void_v<Result>) {
    for_each(variable.variable, call_one);
  } else {
    std::vector<Result> results;
    for_each(variable.variable,
             [&](const Tensor& component, int replica) { results.push_back(call_one(component, replica)); });
    return PerReplica<Result>(std::move(results));
  }
}

// What Strategy::update of a strategy on these devices does.
template <class F, class... Args>
auto call(const std::vector<Device>& devices, const VariableAt& variable, const F& f, const Args&... arguments) {
  const auto each = [&](const auto&... values) { return call_each(devices, variable, f, values...); };
  if constexpr ((is_per_replica<Args> || ...)) {
    return each(arguments...);
  } else {
    if (!in_replica_function()) return each(arguments...);
    using Results = decltype(each(arguments...));
    const ReplicaContext context = get_replica_context(variable.location);
    if constexpr (std::is_void_v<Results>) {
      context.merge_call([&](Strategy&, const PerReplica<Args>&... own) { each(own...); }, arguments...);
    } else {  // all results to each replica, not to each its own
      const auto all = [&](Strategy&, const PerReplica<Args>&... own) { return std::optional<Results>(each(own...)); };
      return *context.merge_call(all, arguments...);
    }
  }
}

}  // namespace component_update
}  // namespace tutti
