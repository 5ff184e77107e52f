#include "tutti/distribute/variable.h"

#include <ATen/core/Formatting.h>
#include <ATen/ops/clone.h>

#include <sstream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/strategy.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

bool is_float(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

[[noreturn]] void refuse(const VariableOptions& options, std::source_location location, const std::string& why) {
  const std::string name = options.name.empty() ? "" : " '" + options.name + "'";
  throw Error(ErrorCode::invalid_argument, str("variable", name, ": at ", to_string(location), " ", why), location);
}

VariablePolicy checked_policy(at::ScalarType dtype, const VariableOptions& options, std::source_location location) {
  if (options.synchronization == VariableSynchronization::none)
    refuse(options, location, "with synchronization none, which no strategy offers; take on_write or on_read");
  if (options.aggregation == VariableAggregation::mean && !is_float(dtype))
    refuse(
        options, location,
        str("of ", at::toString(dtype), " with aggregation mean, which is no integer; take sum, or a floating dtype"));
  if (options.aggregation == VariableAggregation::sum && dtype == at::kBool)
    refuse(options, location, "of Bool with aggregation sum; take an integer dtype");
  if (options.trainable.value_or(false) && !is_float(dtype))
    refuse(options, location, str("of ", at::toString(dtype), " is trainable; only floating point numbers are"));
  const bool on_read = options.synchronization == VariableSynchronization::on_read;
  return {.aggregation = options.aggregation,
          .synchronization = on_read ? VariableSynchronization::on_read : VariableSynchronization::on_write};
}

// With a scope open, in it; with none, a plain tensor.
Variable make(const Tensor& initial, const VariableOptions& options, const VariablePolicy& policy) {
  Tensor tensor = gather(initial.detach()).clone();
  if (const auto* scope = ThreadView::current().scope) tensor = make_mesh_tensor(scope->shape, tensor);
  tensor.set_requires_grad(options.trainable.value_or(is_float(tensor.scalar_type()) && !policy.on_read()));
  if (!options.name.empty()) torch::autograd::impl::set_name(tensor, options.name);
  if (is_mesh_tensor(tensor)) mesh_impl(tensor).require_replica_values().declare(policy, options.name);
  return Variable(tensor);
}

// What each replica brings to the making of one variable.
struct Request {
  Tensor initial;
  const VariableOptions* options;
  Variable made = {};
};

std::string describe(const Request& request) {
  const auto& options = *request.options;
  const std::string trainable = options.trainable ? (*options.trainable ? "true" : "false") : "by default";
  return str("'", options.name, "' of ", request.initial.toString(), " ", str_list(request.initial.sizes()),
             ", aggregation ", to_string(options.aggregation), ", synchronization ", to_string(options.synchronization),
             ", trainable ", trainable);
}

void check_alike(Brought<Request> requests, std::source_location location) {
  const Request& first = requests[0];
  for (size_t r = 1; r < requests.size(); ++r) {
    const Request& other = requests[r];
    if (other.initial.sizes() == first.initial.sizes() && other.initial.dtype() == first.initial.dtype() &&
        *other.options == *first.options)
      continue;
    throw Error(ErrorCode::failed_precondition,
                str("variable: at ", to_string(location), " replica ", r, " makes ", describe(other), ", replica 0 ",
                    describe(first), "; every replica must make the same"),
                location);
  }
}

}  // namespace

Variable variable(const Tensor& initial, VariableOptions options, std::source_location location) {
  const VariablePolicy policy = checked_policy(initial.scalar_type(), options, location);
  const auto open_and_make = [&](const Tensor& value) {
    if (ThreadView::current().scope || !has_strategy()) return make(value, options, policy);
    const auto scope = get_strategy().scope();
    const Variable made = make(value, options, policy);
    scope->finish();
    return made;
  };
  if (in_cross_replica_context() || !has_strategy()) return open_and_make(initial);
  Request request{local(initial).detach(), &options};
  const auto action = [&](Brought<Request> requests) {
    check_alike(requests, location);
    const Variable made = open_and_make(requests[0].initial);
    for (size_t r = 0; r < requests.size(); ++r) requests[r].made = made;
  };
  get_replica_context(location).meet("variable", request, action);
  return request.made;
}

Tensor Variable::value() const { return (in_replica_view() ? tutti::local(*this) : tutti::gather(*this)).clone(); }

std::vector<Tensor> Variable::components() const {
  if (!is_mesh_tensor(*this)) return {*this};
  require_global_view("components", "a replica may touch its own alone; use value(), or merge_call");
  return replica_components(*this).vec();
}

VariablePolicy Variable::policy() const {
  const auto* values = is_mesh_tensor(*this) ? mesh_impl(*this).replica_values() : nullptr;
  return values && values->policy() ? *values->policy() : VariablePolicy{};
}

std::ostream& operator<<(std::ostream& out, const Variable& variable) {
  const ThreadView& view = ThreadView::current();
  if (!is_mesh_tensor(variable) || view.replica >= 0) return at::operator<<(out, local(variable));
  const GlobalViewGuard outside_of_scopes;
  const auto& devices = mesh_impl(variable).mesh_shape()->mesh.devices();
  const auto components = variable.components();
  out << (variable.policy().on_read() ? "SyncOnReadVariable" : "MirroredVariable");
  if (!variable.name().empty()) out << " '" << variable.name() << '\'';
  out << ":{\n";
  for (size_t r = 0; r < components.size(); ++r) {
    out << "  " << r << ": " << devices[r] << '\n';
    std::istringstream lines(str(components[r]));
    for (std::string line; std::getline(lines, line);) out << "    " << line << '\n';
  }
  return out << '}';
}

}  // namespace tutti
