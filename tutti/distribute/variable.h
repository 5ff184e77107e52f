#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <iosfwd>
#include <optional>
#include <source_location>
#include <string>
#include <variant>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/tensor/variable_policy.h"

namespace tutti {

struct VariableOptions {
  std::string name = {};  // for messages and printing; component r > 0 is called "name/replica_r"
  VariableAggregation aggregation = VariableAggregation::none;
  VariableSynchronization synchronization = VariableSynchronization::auto_;
  std::optional<bool> trainable = {};  // whether it requires a gradient; default: floating point, and not on_read

  bool operator==(const VariableOptions&) const = default;
};

// What a variable takes: a tensor of its shape and dtype; a number, which fills it; outside of replicas also a tensor
// for each component.
using VariableValue = std::variant<Tensor, at::Scalar, PerReplica<Tensor>>;

// A tensor that programs assign to: a handle, all of whose state is the tensor's, so that it goes wherever a tensor
// goes and Variable(tensor) brings it back. Under the default strategy it is a plain tensor. A module's parameters and
// buffers count as on_write without aggregation here.
//
// assign and scatter_* have no gradient. In a replica they follow the aggregation: none writes the own component alone;
// sum, mean and only_first_replica wait for all replicas and give every component the same update; on_read writes the
// own component, whatever the aggregation. Outside of replicas they update every component. An in-place op of LibTorch
// writes the own component in a replica, and the value outside.
// Throws: invalid_argument for another shape or dtype, a bare number to add up over replicas, several values in a
// replica or on_read, and, on_read and outside, a sum that is not assigned or no aggregation; failed_precondition in a
// replica of another strategy, or where the replicas' calls do not match. TF: tf.Variable, in a strategy's scope.
class Variable : public Tensor {
 public:
  using Location = std::source_location;

  Variable() = default;
  explicit Variable(Tensor tensor) : Tensor(std::move(tensor)) {}

  // A copy of the value where it is read: in a replica its component, outside the first component on_write and the
  // aggregate on_read. Grad: as of clone. Throws: invalid_argument outside for on_read without aggregation.
  Tensor value() const;
  // Outside of replicas: every component, in replica order; not copies. To write them, use Strategy::update.
  std::vector<Tensor> components() const;
  VariablePolicy policy() const;

  // Outside of replicas on_read with aggregation sum: each of R components becomes value / R, of integers truncated.
  const Variable& assign(const VariableValue& value, Location location = Location::current()) const;
  const Variable& assign_add(const VariableValue& value, Location location = Location::current()) const;
  const Variable& assign_sub(const VariableValue& value, Location location = Location::current()) const;

  // Updates the rows that `indices` names by the rows of `values`, in their order where one is named twice. Where
  // replicas are aggregated, those of all count, for the mean divided by the number of replicas.
  // Shapes: variable [n, *], indices [k] of integers, values [k, *]. Throws: out_of_range for an index outside [0, n);
  // unimplemented on_read, and of min, max and update with aggregation sum or mean.
  const Variable& scatter_add(const Tensor& indices, const Tensor& values,
                              Location location = Location::current()) const;
  const Variable& scatter_sub(const Tensor& indices, const Tensor& values,
                              Location location = Location::current()) const;
  const Variable& scatter_mul(const Tensor& indices, const Tensor& values,
                              Location location = Location::current()) const;
  const Variable& scatter_div(const Tensor& indices, const Tensor& values,
                              Location location = Location::current()) const;
  const Variable& scatter_min(const Tensor& indices, const Tensor& values,
                              Location location = Location::current()) const;
  const Variable& scatter_max(const Tensor& indices, const Tensor& values,
                              Location location = Location::current()) const;
  const Variable& scatter_update(const Tensor& indices, const Tensor& values,
                                 Location location = Location::current()) const;
  using Tensor::scatter_add;
};

// A variable of the strategy in force, with a copy of `initial`. In a replica's function all replicas meet, and replica
// 0's initial value counts. Throws: invalid_argument for synchronization none, sum of booleans, the mean of anything
// but floating point numbers, or a trainable integer; failed_precondition for replicas that ask for unlike variables.
Variable variable(const Tensor& initial, VariableOptions options = {},
                  std::source_location location = std::source_location::current());

// Outside of replicas each component with its device, in a replica its own; a plain tensor as LibTorch prints it.
std::ostream& operator<<(std::ostream& out, const Variable& variable);

}  // namespace tutti
