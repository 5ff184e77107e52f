#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <string_view>

namespace tutti {

using Tensor = at::Tensor;

// How the values that replicas have for one variable become one. TF: tf.VariableAggregation.
enum class VariableAggregation { none, sum, mean, only_first_replica };

// When they do. TF: tf.VariableSynchronization.
enum class VariableSynchronization {
  auto_,     // on_write
  none,      // refused: every variable is synchronized
  on_write,  // when replicas assign: afterwards all hold the same value
  on_read,   // when the variable is read outside of replicas: until then each replica has a value of its own
};

std::string_view to_string(VariableAggregation aggregation);
std::string_view to_string(VariableSynchronization synchronization);

// What a variable was declared to do, with auto_ resolved.
struct VariablePolicy {
  VariableAggregation aggregation = VariableAggregation::none;
  VariableSynchronization synchronization = VariableSynchronization::on_write;

  bool on_read() const { return synchronization == VariableSynchronization::on_read; }
  bool operator==(const VariablePolicy&) const = default;
};

// The sum, the mean or the first of the values, on the device of the first; it may be values[0] itself. The mean of
// equal elements is that element, bit for bit. Shapes, dtypes: equal; the mean is of floating point or complex numbers.
Tensor aggregate(VariableAggregation aggregation, c10::ArrayRef<Tensor> values);

}  // namespace tutti
