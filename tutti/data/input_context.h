#pragma once

#include <cstdint>

namespace tutti::data {

// What a function that builds one input pipeline of several is told. TF: tf.distribute.InputContext.
struct InputContext {
  int num_input_pipelines = 1;
  int input_pipeline_id = 0;
  int num_replicas_in_sync = 1;

  // Throws: invalid_argument unless the global batch divides evenly among the replicas.
  int64_t get_per_replica_batch_size(int64_t global_batch_size) const;
};

}  // namespace tutti::data
