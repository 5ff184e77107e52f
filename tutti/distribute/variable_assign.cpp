// How variables are written by name: assign and the scatter updates, in a replica and outside.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/component_update.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

// What a component is updated with: a whole value, or rows of it.
struct Operand {
  Tensor value;
  Tensor indices = {};  // undefined: a whole value
};

// One way of updating a component.
struct Update {
  const char* name;
  void (*apply)(const Tensor& component, const Operand& operand);
  bool replaces = false;  // what the component held before does not count
  bool adds_up = true;    // rows of several replicas can be updated one after the other
};

// Combines the rows that `operand` names with its own by `reduction`, one after the other.
void combine_rows(const Tensor& component, const Operand& operand, c10::string_view reduction) {
  at::DimVector one_column(operand.value.dim(), 1);
  one_column[0] = operand.indices.size(0);
  component.scatter_reduce_(0, operand.indices.view(one_column).expand_as(operand.value), operand.value, reduction);
}

void divide_rows(const Tensor& component, const Operand& operand) {
  const Tensor divisors = at::ones_like(component);
  combine_rows(divisors, operand, "prod");
  const bool integral = at::isIntegralType(component.scalar_type(), /*includeBool=*/true);
  component.div_(divisors, integral ? std::optional<c10::string_view>("trunc") : std::nullopt);
}

constexpr Update kAssign{
    .name = "assign", .apply = [](const Tensor& c, const Operand& o) { c.copy_(o.value); }, .replaces = true};
constexpr Update kAssignAdd{.name = "assign_add", .apply = [](const Tensor& c, const Operand& o) { c.add_(o.value); }};
constexpr Update kAssignSub{.name = "assign_sub", .apply = [](const Tensor& c, const Operand& o) { c.sub_(o.value); }};
constexpr Update kScatterAdd{.name = "scatter_add",
                             .apply = [](const Tensor& c, const Operand& o) { c.index_add_(0, o.indices, o.value); }};
constexpr Update kScatterSub{
    .name = "scatter_sub", .apply = [](const Tensor& c, const Operand& o) { c.index_add_(0, o.indices, o.value, -1); }};
constexpr Update kScatterMul{.name = "scatter_mul",
                             .apply = [](const Tensor& c, const Operand& o) { combine_rows(c, o, "prod"); }};
constexpr Update kScatterDiv{.name = "scatter_div", .apply = divide_rows};
constexpr Update kScatterMin{.name = "scatter_min",
                             .apply = [](const Tensor& c, const Operand& o) { combine_rows(c, o, "amin"); },
                             .adds_up = false};
constexpr Update kScatterMax{.name = "scatter_max",
                             .apply = [](const Tensor& c, const Operand& o) { combine_rows(c, o, "amax"); },
                             .adds_up = false};
constexpr Update kScatterUpdate{
    .name = "scatter_update",
    .apply = [](const Tensor& c, const Operand& o) { c.index_copy_(0, o.indices, o.value); },
    .adds_up = false};

// One call of a user's: what is written, how, and from where.
struct AssignCall {
  const Variable& variable;
  const Update& update;
  std::source_location location;
  VariablePolicy policy = variable.policy();

  template <class... Parts>
  [[noreturn]] void refuse(ErrorCode code, const Parts&... why) const {
    const std::string name = variable.name().empty() ? "" : " '" + variable.name() + "'";
    throw Error(code, str(update.name, ": at ", to_string(location), " variable", name, " ", why...), location);
  }
};

Tensor checked(const AssignCall& call, const Tensor& value) {
  const Variable& variable = call.variable;
  const Tensor plain = in_replica_view() ? local(value) : gather(value);
  if (plain.sizes() != variable.sizes() || plain.dtype() != variable.dtype())
    call.refuse(ErrorCode::invalid_argument, "of ", at::toString(variable.scalar_type()), " ",
                str_list(variable.sizes()), " gets ", at::toString(plain.scalar_type()), " ", str_list(plain.sizes()),
                "; shape and dtype must be the same");
  return plain.detach();
}

Tensor checked(const AssignCall& call, const at::Scalar& value) {
  const at::ScalarType dtype = call.variable.scalar_type();
  if (!at::canCast(value.type(), dtype))
    call.refuse(ErrorCode::invalid_argument, "of ", at::toString(dtype), " gets a number of ",
                at::toString(value.type()), "; convert it first");
  return at::scalar_tensor(value, at::TensorOptions().dtype(dtype).device(call.variable.device()));
}

Operand checked_rows(const AssignCall& call, const Tensor& indices, const Tensor& values) {
  const Variable& variable = call.variable;
  if (call.policy.on_read())
    call.refuse(ErrorCode::unimplemented, "is on_read, whose rows cannot be updated; write the component in place");
  const auto aggregation = call.policy.aggregation;
  if (!call.update.adds_up && (aggregation == VariableAggregation::sum || aggregation == VariableAggregation::mean))
    call.refuse(ErrorCode::unimplemented, "has aggregation ", to_string(aggregation),
                "; this update takes none or only_first_replica");
  const bool in_replica = in_replica_view();
  const Tensor rows = in_replica ? local(values) : gather(values);
  Tensor where = in_replica ? local(indices) : gather(indices);
  if (variable.dim() == 0 || where.dim() != 1 || !at::isIntegralType(where.scalar_type(), /*includeBool=*/false) ||
      rows.dim() != variable.dim() || rows.size(0) != where.size(0) ||
      rows.sizes().slice(1) != variable.sizes().slice(1) || rows.dtype() != variable.dtype())
    call.refuse(ErrorCode::invalid_argument, "of ", at::toString(variable.scalar_type()), " ",
                str_list(variable.sizes()), " gets values of ", at::toString(rows.scalar_type()), " ",
                str_list(rows.sizes()), " at indices of ", at::toString(where.scalar_type()), " ",
                str_list(where.sizes()), "; it takes indices [k] of integers and values [k, …] of its rows and dtype");
  where = where.to(at::kLong);
  if (where.numel() > 0) {
    const auto [least, greatest] = at::aminmax(where);
    if (least.item<int64_t>() < 0 || greatest.item<int64_t>() >= variable.size(0))
      call.refuse(ErrorCode::out_of_range, "has ", variable.size(0), " rows; the indices go from ",
                  least.item<int64_t>(), " to ", greatest.item<int64_t>());
  }
  return {.value = rows.detach(), .indices = where};
}

// What all replicas together do, of what each wants, where the first one's lies.
Operand aggregated(VariableAggregation aggregation, const std::vector<Operand>& operands) {
  if (operands.size() == 1 || aggregation == VariableAggregation::only_first_replica) return operands[0];
  const c10::Device place = operands[0].value.device();
  std::vector<Tensor> values, indices;
  for (const Operand& operand : operands) {
    values.push_back(operand.value.to(place));
    indices.push_back(operand.indices.defined() ? operand.indices.to(place) : Tensor());
  }
  if (!indices[0].defined()) return {.value = aggregate(aggregation, values)};
  Tensor rows = at::cat(values);
  if (aggregation == VariableAggregation::mean) rows = rows.div(static_cast<double>(operands.size()));
  return {.value = rows, .indices = at::cat(indices)};
}

// The value, or a copy where it lies in what is written: that is written one after the other, and the first write must
// not change what the next one reads.
Tensor apart_from(c10::ArrayRef<Tensor> written, const Tensor& value) {
  const auto memory_of = [](const Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); };
  const bool is_part = value.defined() && value.has_storage() && std::ranges::any_of(written, [&](const Tensor& each) {
                         return memory_of(each) == memory_of(value);
                       });
  return is_part ? value.clone() : value;
}
Operand apart_from(c10::ArrayRef<Tensor> written, const Operand& operand) {
  return {.value = apart_from(written, operand.value), .indices = apart_from(written, operand.indices)};
}

// The same update of every component. Components that agree are written once, in the buffer that they share.
void write_all(const AssignCall& call, const Operand& operand) {
  const GlobalViewGuard global_view;
  auto& impl = mesh_impl(call.variable);
  auto& values = impl.require_replica_values();
  const auto apply = [&](const Tensor& component, const Operand& own) {
    const Tensor there = own.value.to(component.device());
    const Tensor indices = own.indices.defined() ? own.indices.to(component.device()) : Tensor();
    call.update.apply(component, {there, indices});
  };
  if (call.policy.on_read() || (values.diverged() && !call.update.replaces)) {
    const Operand own = apart_from(replica_components(call.variable), operand);
    return component_update::for_each(call.variable, [&](const Tensor& component, int) { apply(component, own); });
  }
  const Components& buffers = impl.write();
  const Operand own = apart_from(buffers, operand);
  for (const Tensor& buffer : buffers) apply(buffer, own);
  if (!impl.is_inference()) impl.bump_version();
  impl.finish_write();
}

void record(const AssignCall& call, int num_replicas, const Tensor& value) {
  if (num_replicas == 1) return;
  const bool reduces = call.policy.aggregation != VariableAggregation::only_first_replica;
  communicated(
      communication_counter(
          {.op = reduces ? "all_reduce" : "broadcast", .mesh_dimension = "replica", .cause = call.update.name}),
      static_cast<int64_t>(value.nbytes()));
}

// What the replicas of all processes want, in their order.
std::vector<Operand> of_all_processes(const AssignCall& call, std::vector<Operand> own) {
  const auto processes = processes_of(*mesh_impl(call.variable).mesh_shape());
  if (!processes) return own;
  std::vector<Tensor> parts;
  for (const Operand& operand : own) {
    parts.push_back(operand.value);
    parts.push_back(operand.indices);
  }
  std::vector<Operand> all;
  for (const auto& tensors : gather_tensors(*processes, parts, call.update.name, call.location))
    for (size_t i = 0; i + 1 < tensors.size(); i += 2) all.push_back({.value = tensors[i], .indices = tensors[i + 1]});
  return all;
}

void write_in_replica(const AssignCall& call, Operand operand) {
  const Tensor component = local(call.variable);
  const bool shared = has_read_copies(call.variable);
  const bool none = call.policy.aggregation == VariableAggregation::none;
  if (call.policy.on_read() || (none && !shared)) {
    if (auto& impl = mesh_impl(call.variable); !impl.is_inference()) impl.bump_version();
    return call.update.apply(component, operand);
  }
  if (none && get_replica_context().num_replicas_in_sync() > 1)
    call.refuse(ErrorCode::invalid_argument,
                "lies on one device, and its replicas cannot each write it; make it with an aggregation");
  const auto together = [&](Brought<Operand> brought) {
    std::vector<Operand> operands;
    for (size_t r = 0; r < brought.size(); ++r) operands.push_back(brought[r]);
    record(call, static_cast<int>(operands.size()), operands[0].value);
    write_all(call, aggregated(call.policy.aggregation, of_all_processes(call, std::move(operands))));
  };
  // Replicas that write different variables do not meet.
  const auto key = reinterpret_cast<uintptr_t>(call.variable.unsafeGetTensorImpl());
  get_replica_context(call.location).meet(call.update.name, operand, together, key);
}

void write_outside(const AssignCall& call, Operand operand) {
  if (call.policy.on_read()) {
    const auto aggregation = call.policy.aggregation;
    if (aggregation == VariableAggregation::none)
      call.refuse(ErrorCode::invalid_argument,
                  "is on_read without an aggregation and has no value outside of replicas; use Strategy::update");
    if (aggregation == VariableAggregation::sum && !call.update.replaces)
      call.refuse(ErrorCode::invalid_argument,
                  "is the sum of its components: what each of them should get is not defined; use assign, or "
                  "Strategy::update");
    if (aggregation == VariableAggregation::sum) {
      const auto& shape = *mesh_impl(call.variable).mesh_shape();
      const auto processes = processes_of(shape);
      const int64_t terms = shape.mesh.num_devices() * (processes ? processes->size() : 1);
      operand.value = at::isIntegralType(operand.value.scalar_type(), /*includeBool=*/false)
                          ? operand.value.div(terms, "trunc")
                          : operand.value.div(terms);
    }
  }
  write_all(call, operand);
}

void write_each(const AssignCall& call, const PerReplica<Tensor>& values) {
  if (call.policy.on_read())
    call.refuse(ErrorCode::invalid_argument,
                "is on_read: outside of replicas it takes one value; give each component its own by Strategy::update");
  const auto components = call.variable.components();
  if (values.size() != components.size())
    call.refuse(ErrorCode::invalid_argument, "has ", components.size(), " components and gets ", values.size(),
                " values");
  std::vector<Tensor> all;
  for (const Tensor& value : values) all.push_back(apart_from(components, checked(call, value)));
  component_update::for_each(call.variable, [&](const Tensor& component, int replica) {
    call.update.apply(component, {all[static_cast<size_t>(replica)].to(component.device())});
  });
}

// A variable that no strategy made has one component, which replicas would write at once.
void check_made_here(const AssignCall& call) {
  const int replica = ThreadView::current().function_of();
  const auto* rendezvous = current_rendezvous();
  if (rendezvous && replica >= 0 && rendezvous->num_replicas() > 1)
    call.refuse(ErrorCode::failed_precondition, "was made under no strategy, and replica ", replica, " of ",
                rendezvous->num_replicas(), " writes it; make it in the strategy's scope");
}

void write(const AssignCall& call, const Operand& operand) {
  if (!is_mesh_tensor(call.variable)) {
    check_made_here(call);
    return call.update.apply(call.variable, operand);
  }
  if (in_replica_view()) return write_in_replica(call, operand);
  write_outside(call, operand);
}

const Variable& assign_value(const AssignCall& call, const VariableValue& value) {
  const at::NoGradGuard no_grad;
  const bool in_replica = in_replica_view();
  std::optional<GlobalViewGuard> outside_of_scopes;
  if (!in_replica) outside_of_scopes.emplace();
  if (const auto* values = std::get_if<PerReplica<Tensor>>(&value)) {
    if (in_replica) call.refuse(ErrorCode::invalid_argument, "gets a value for each replica in one; pass its own");
    write_each(call, *values);
  } else if (const auto* number = std::get_if<at::Scalar>(&value)) {
    if (in_replica && !call.policy.on_read() && call.policy.aggregation == VariableAggregation::sum)
      call.refuse(ErrorCode::invalid_argument,
                  "has aggregation sum: a number that is the same in every replica cannot be added up; pass a tensor");
    write(call, {.value = checked(call, *number)});
  } else {
    write(call, {.value = checked(call, std::get<Tensor>(value))});
  }
  return call.variable;
}

const Variable& update_rows(const AssignCall& call, const Tensor& indices, const Tensor& values) {
  const at::NoGradGuard no_grad;
  std::optional<GlobalViewGuard> outside_of_scopes;
  if (!in_replica_view()) outside_of_scopes.emplace();
  write(call, checked_rows(call, indices, values));
  return call.variable;
}

}  // namespace

const Variable& Variable::assign(const VariableValue& value, Location location) const {
  return assign_value({*this, kAssign, location}, value);
}
const Variable& Variable::assign_add(const VariableValue& value, Location location) const {
  return assign_value({*this, kAssignAdd, location}, value);
}
const Variable& Variable::assign_sub(const VariableValue& value, Location location) const {
  return assign_value({*this, kAssignSub, location}, value);
}
const Variable& Variable::scatter_add(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterAdd, location}, indices, values);
}
const Variable& Variable::scatter_sub(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterSub, location}, indices, values);
}
const Variable& Variable::scatter_mul(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterMul, location}, indices, values);
}
const Variable& Variable::scatter_div(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterDiv, location}, indices, values);
}
const Variable& Variable::scatter_min(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterMin, location}, indices, values);
}
const Variable& Variable::scatter_max(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterMax, location}, indices, values);
}
const Variable& Variable::scatter_update(const Tensor& indices, const Tensor& values, Location location) const {
  return update_rows({*this, kScatterUpdate, location}, indices, values);
}

}  // namespace tutti
