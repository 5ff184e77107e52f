#include "tutti/distribute/check_in_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ne.h>

#include <iomanip>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/comparable.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

// With as many digits as tell it from its neighbours.
std::string number(const Tensor& element) {
  std::ostringstream out;
  if (at::isComplexType(element.scalar_type()))
    out << std::setprecision(17) << element.item<c10::complex<double>>();
  else if (at::isFloatingType(element.scalar_type()))
    out << std::setprecision(element.scalar_type() == at::kDouble ? 17 : 9) << element.item<double>();
  else
    out << element.item<int64_t>();
  return out.str();
}

// Where two components differ first, in row-major order: "[0, 2]: 1 and 3"; empty if they do not.
std::string first_difference(const Tensor& of_first, const Tensor& of_other) {
  const Tensor first = comparable(of_first), other = comparable(of_other);
  if (at::equal(first, other)) return {};
  const Tensor unequal = at::ne(first, other).logical_and(at::isnan(first).logical_and(at::isnan(other)).logical_not());
  const Tensor places = unequal.nonzero();
  if (places.size(0) == 0) return {};
  std::vector<int64_t> place;
  Tensor a = first, b = other;
  for (int64_t axis = 0; axis < places.size(1); ++axis) {
    place.push_back(places[0][axis].item<int64_t>());
    a = a[place.back()];
    b = b[place.back()];
  }
  return str(str_list(place), ": ", number(b), ", replica 0 has ", number(a));
}

// Where a replica of this process has another value than its first one; empty if none has.
std::string difference_here(ReplicaValues& values) {
  if (!values.diverged()) return {};
  const auto components = values.components();
  const Tensor first = components[0].detach();
  for (size_t r = 1; r < components.size(); ++r)
    if (const auto difference = first_difference(first, components[r].detach().to(first.device())); !difference.empty())
      return str("replica ", r, " has at ", difference);
  return {};
}

// The same, or where the first replica differs from the chief's: of the first process in which one does. In all alike.
std::string difference_anywhere(Processes& processes, ReplicaValues& values, std::source_location location) {
  std::string difference = difference_here(values);
  const Tensor own = values.components()[0].detach().cpu().contiguous();
  const Tensor chief = own.clone();
  broadcast_tensors(processes, {&chief, 1}, "check_in_sync", location);
  if (!difference.empty())
    difference = str(processes.task_name(), ": ", difference);
  else if (const auto from_chief = first_difference(chief, own); !from_chief.empty())
    difference = str(processes.task_name(), " has at ", from_chief, " of ", processes.task_name(0));
  for (const auto& told : processes.gather({reinterpret_cast<const uint8_t*>(difference.data()), difference.size()},
                                           "check_in_sync", location))
    if (!told.empty()) return {told.begin(), told.end()};
  return {};
}

void check(const Tensor& variable, const std::string& position, std::source_location location) {
  if (!is_mesh_tensor(variable)) return;
  const auto processes = processes_of(*mesh_impl(variable).mesh_shape());
  auto* values = processes ? &mesh_impl(variable).require_replica_values() : mesh_impl(variable).replica_values();
  if (!values || (values->policy() && values->policy()->on_read())) return;
  const at::NoGradGuard no_grad;
  const GlobalViewGuard global_view;
  const std::string difference =
      processes ? difference_anywhere(*processes, *values, location) : difference_here(*values);
  if (difference.empty()) return;
  throw Error(ErrorCode::failed_precondition,
              str("check_in_sync: at ", to_string(location), " ", values->describe(), position, ": ", difference,
                  "; replicas that write a mirrored variable must write the same value, or the variable needs an "
                  "aggregation"),
              location);
}

void check_all(const std::vector<Tensor>& variables, std::source_location location) {
  for (size_t i = 0; i < variables.size(); ++i)
    check(variables[i], variables.size() > 1 ? str(", number ", i, " of the list") : "", location);
}

}  // namespace

void check_in_sync(const Tensor& variable, std::source_location location) {
  check_in_sync(std::vector<Tensor>{variable}, location);
}

void check_in_sync(const std::vector<Tensor>& variables, std::source_location location) {
  if (!in_replica_view()) return check_all(variables, location);
  get_replica_context(location).meet("check_in_sync", [&] { check_all(variables, location); });
}

}  // namespace tutti
