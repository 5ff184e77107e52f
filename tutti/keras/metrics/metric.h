#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::metrics {

// A number (or a few) about all samples seen since the last reset. A shared handle: copies are the same metric.
// TF: tf.keras.metrics.Metric
//
// Every metric is a sum over samples followed by a function of that sum, so each replica adds what its own samples
// contribute to a sum of its own, and the result, taken outside of run, is exact: a function of all sums together.
class Metric {
 public:
  // Returns what these samples add to the state, a tensor of the state's shape; sample_weight may be undefined.
  using Contribution = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight)>;
  // Returns the result for a state (float64).
  using Result = std::function<Tensor(const Tensor& state)>;

  Metric(std::string name, at::IntArrayRef state_shape, Contribution contribution, Result result);

  // Changes nothing; any thread may call. Grad: none.
  Tensor contribution(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {}) const;
  // Adds a contribution to the sum of the replica that calls, or to that of global view. Threads: all replicas at once.
  void add(const Tensor& contribution) const;

  // add(contribution(…))
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {}) const;

  // float64 on the CPU; a scalar for most metrics. 0 for a mean of nothing, as in Keras.
  Tensor result() const;
  void reset_state() const;

  const std::string& name() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti::keras::metrics
