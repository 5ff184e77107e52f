#pragma once

#include <cstdint>
#include <vector>

namespace tutti::data {

// One replica among all.
struct ReplicaSlot {
  int replica_id = 0;
  int num_replicas = 1;
};

struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const RowRange&) const = default;
};

// The rows of a batch of `rows` that a replica gets: slices of ceil(rows / num_replicas), so the later ones may be
// short or empty. 4 rows for 3 replicas: 2, 2, 0. TF: LegacyRebatchDataset.
RowRange replica_rows(int64_t rows, const ReplicaSlot& slot);

// One input pipeline (worker) among those that share a global batch.
struct WorkerSlot {
  int worker = 0;
  int num_workers = 1;
  int replicas_per_worker = 1;
};

// The sizes of a worker's per-replica batches, to be used cyclically: each step's batches sum to global_batch and
// differ by at most one, and so do each worker's over a cycle. TF: batch_sizes_for_worker. Throws: invalid_argument
// for a negative global_batch, counts that are not positive, a worker that is none of them.
std::vector<int64_t> batch_sizes_for_worker(int64_t global_batch, const WorkerSlot& slot);

}  // namespace tutti::data
