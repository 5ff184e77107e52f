#pragma once

#include <cstdint>

namespace tutti::data {

// How many pipelines a function makes. TF: tf.distribute.InputReplicationMode.
enum class InputReplicationMode {
  per_worker,   // one for each worker, whose replicas take turns in it
  per_replica,  // one for each replica
};

// How a distributed dataset is fed. TF: tf.distribute.InputOptions.
struct InputOptions {
  // Elements are put where their replica computes; else they stay where the dataset has them.
  bool fetch_to_device = true;
  // per_replica: for MirroredStrategy::distribute_datasets_from_function alone.
  InputReplicationMode replication_mode = InputReplicationMode::per_worker;
  // Instead of fetch_to_device, for pipelines of a replica: each has its elements on its replica's device.
  bool place_dataset_on_device = false;
  // How many elements are ready for each replica, that in use included. More than one: a thread for each pipeline
  // computes ahead.
  int64_t per_replica_buffer_size = 1;
};

// Throws: invalid_argument for place_dataset_on_device without per_replica or with fetch_to_device, and for a buffer of
// less than one element; unimplemented for per_replica where `per_replica` says that there is none. `call` is named.
void check_input_options(const char* call, const InputOptions& options, bool per_replica);

}  // namespace tutti::data
