#pragma once

#include <cstdint>

#include "tutti/collectives/reduce_op.h"

namespace tutti {

struct BuildOptions {
  // How the replicas' gradients become one: the sum, for losses that are divided by the global batch; the mean, for
  // code whose loss is a mean over its own batch.
  ReduceOp gradients = ReduceOp::sum;
};

// What the function of values_from_function is told. TF: tf.distribute.experimental.ValueContext.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int64_t num_replicas_in_sync = 1;
};

struct RunOptions {
  // Lets one replica compute at a time, to find out whether results depend on state that replicas share.
  bool one_at_a_time = false;
};

// Keeps a strategy's scope open on this thread: variables made meanwhile are the strategy's. Returned by scope().
class StrategyScope {
 public:
  virtual ~StrategyScope() = default;
  // With several processes: gives the variables made so far the chief's values. Every process calls it. build() does;
  // else it is done when replicas next run.
  virtual void finish() {}
};

}  // namespace tutti
