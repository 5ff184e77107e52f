#pragma once

#include <span>
#include <vector>

#include "tutti/collectives/reduce_op.h"
#include "tutti/core/per_replica.h"
#include "tutti/distribute/destinations.h"

namespace tutti {

// What the replicas hold of one tensor, and where the result is wanted.
struct ReduceRequest {
  PerReplica<Tensor> values;
  Destinations destinations;
};

// How values of several devices become one. A strategy's reductions, gradients and collectives are made of it. Who
// writes one derives from this and implements batch_reduce_implementation; the rest has a default.
// Results are ordinary tensors, one on each destination, in their order, with memory of their own; but one value that
// is already on its only destination is returned as it is.
// Threads: any, also at once; replicas that meet call it from one of their threads. TF: tf.distribute.CrossDeviceOps.
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;

  // For each request the elementwise sum or mean of its values, in replica order.
  // Shapes: equal in a request. Dtype: kept; but the mean of integers is float64, of 8 and 16 bits float32. One value
  // alone is its own mean, of any dtype. Sparse values are joined, duplicate indices kept; the mean divides them.
  // Throws: invalid_argument for unequal shapes, dtypes or layouts, and for booleans.
  virtual std::vector<std::vector<Tensor>> batch_reduce(ReduceOp op, std::vector<ReduceRequest> requests) const;
  // The same of one request.
  std::vector<Tensor> reduce(ReduceOp op, PerReplica<Tensor> values, Destinations destinations) const;

  // Copies of the value.
  std::vector<Tensor> broadcast(const Tensor& value, const Destinations& destinations) const;

  // The values joined along an axis, in replica order; sparse ones are made dense.
  // Shapes: equal but for the axis. Throws: invalid_argument for scalars, unequal ranks, other sizes or dtypes;
  // out_of_range for an axis that is not in [0, rank).
  virtual std::vector<Tensor> gather(const PerReplica<Tensor>& values, const Destinations& destinations,
                                     int64_t axis) const;

 protected:
  // As batch_reduce, of dense values that fit together, two or more in each request, no integers where op is the mean.
  // results[i] has a tensor of its own for each destination of request i.
  virtual std::vector<std::vector<Tensor>> batch_reduce_implementation(
      ReduceOp op, std::span<const ReduceRequest> requests) const = 0;
  // As broadcast and gather, of arguments that were checked; gather of two or more dense values.
  virtual std::vector<Tensor> broadcast_implementation(const Tensor& value, const Destinations& destinations) const;
  virtual std::vector<Tensor> gather_implementation(const PerReplica<Tensor>& values, const Destinations& destinations,
                                                    int64_t axis) const;
};

// Throws invalid_argument where int32 and other dtypes are among the requests, which TensorFlow keeps in different
// memories; `call` is named.
void require_one_kind(const char* call, std::span<const ReduceRequest> requests);

// Gives `value`, which nobody else holds, to the first destination that it lies on, and copies to the others.
std::vector<Tensor> hand_out(const Tensor& value, const Destinations& destinations);
// The values on one device; those that are there already as they are.
std::vector<Tensor> bring_to(const PerReplica<Tensor>& values, c10::Device device);

}  // namespace tutti
