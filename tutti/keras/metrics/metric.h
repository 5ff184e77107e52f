#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/made_from.h"

namespace tutti::keras::metrics {

// Which results are better: higher or lower ones. Callbacks with mode "auto" ask.
enum class Direction { unknown, up, down };

// What one replica's samples bring to a metric: a contribution, or of a metric with a state of its own the samples,
// {y_true, y_pred, sample_weight}.
using Share = std::vector<Tensor>;

// A number (or a few) about all samples seen since the last reset. A shared handle: copies are the same metric.
// TF: tf.keras.metrics.Metric
//
// Every metric is a sum over samples followed by a function of that sum, so each replica adds what its own samples
// contribute to a sum of its own, and the result, taken outside of run, is exact: a function of all sums together.
// A metric with a state of its own is any other: it sees each global batch as a whole, once, whatever the number of
// replicas.
class Metric {
 public:
  // Returns what these samples add to the state, a tensor of the state's shape; sample_weight may be undefined.
  using Contribution = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight)>;
  // Returns the result for a state (float64).
  using Result = std::function<Tensor(const Tensor& state)>;

  // An extent of kUnknown is that of the first contribution.
  Metric(std::string name, at::IntArrayRef state_shape, Contribution contribution, Result result,
         Direction direction = Direction::unknown);

  // One with the defaults, by its name as Keras takes it, which is also its name: "mae", "auc", "RootMeanSquaredError",
  // …; "accuracy" or "acc" is binary, sparse or categorical as the shapes of labels and predictions say (see
  // label_kind). Throws: invalid_argument for another name.
  Metric(const char* name);

  // For a metric with a state of its own.
  using States = std::vector<Tensor>;
  // Returns the state after these samples; sample_weight may be undefined.
  using Update = std::function<States(const States& state, const Tensor& y_true, const Tensor& y_pred,
                                      const Tensor& sample_weight)>;
  using StatesResult = std::function<Tensor(const States& state)>;
  Metric(std::string name, States initial, Update update, StatesResult result,
         Direction direction = Direction::unknown);

  // Changes nothing; any thread may call. Grad: none. Shapes: sample_weight, if defined, [N] or [N, …] as the metric
  // says; so mask, bool: where it is false the weight is zero.
  // Throws: invalid_argument for shapes that do not fit each other, and for labels that are out of range;
  // failed_precondition of a metric with a state of its own.
  Tensor contribution(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                      const Tensor& mask = {}) const;
  // Adds a contribution to the sum of the replica that calls, or to that of global view. Threads: all replicas at once.
  // Throws: invalid_argument if it has another shape than those before.
  void add(const Tensor& contribution) const;

  // What one replica's samples bring to fit and evaluate; changes nothing.
  Share share(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
              const Tensor& mask = {}) const;

  // add(contribution(…)); of a metric with a state of its own, its update, which throws failed_precondition in a
  // replica's function: there is one state.
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                    const Tensor& mask = {}) const;

  // float64 on the CPU; a scalar for most metrics. 0 for a mean of nothing, as in Keras.
  // Throws: failed_precondition if the shape of the state is not known before the first update.
  Tensor result() const;
  void reset_state() const;

  const std::string& name() const;
  Direction direction() const;
  const MadeFrom& made_from() const;

 protected:
  void tell_made_from(MadeFrom made_from) const;

 private:
  friend class RunningMetric;
  struct State;
  std::shared_ptr<State> state_;
};

// A metric over the samples that are added here; the state of the metric's handle is another one.
class RunningMetric {
 public:
  explicit RunningMetric(Metric metric);

  // Adds the shares of one global batch, in the order of the replicas.
  void add(std::span<const Share> shares);

  bool was_updated() const { return sum_.defined() || !states_.empty(); }
  Tensor result() const;

 private:
  Metric metric_;
  Tensor sum_;  // float64
  Metric::States states_;
};

}  // namespace tutti::keras::metrics
