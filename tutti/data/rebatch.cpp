#include "tutti/data/rebatch.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

RowRange replica_rows(int64_t rows, const ReplicaSlot& slot) {
  const int64_t share = rows / slot.num_replicas + (rows % slot.num_replicas != 0);
  const int64_t first = std::min(rows, share * slot.replica_id);
  return {.first = first, .count = std::min(share, rows - first)};
}

std::vector<int64_t> batch_sizes_for_worker(int64_t global_batch, const WorkerSlot& slot) {
  const auto& [worker, num_workers, replicas_per_worker] = slot;
  if (global_batch < 0 || replicas_per_worker < 1 || worker < 0 || worker >= num_workers)
    throw Error(ErrorCode::invalid_argument, str("batch_sizes_for_worker: batch ", global_batch, ", worker ", worker,
                                                 " of ", num_workers, " with ", replicas_per_worker,
                                                 " replicas each; the batch may not be negative, the counts must be "
                                                 "positive, and 0 <= worker < num_workers"));
  const int64_t num_replicas = static_cast<int64_t>(num_workers) * replicas_per_worker;
  std::vector<int64_t> sizes(num_replicas, global_batch / num_replicas);
  for (int64_t i = 0; i < global_batch % num_replicas; ++i) ++sizes[i];
  std::ranges::rotate(sizes, sizes.begin() + static_cast<int64_t>(worker) * replicas_per_worker);
  return sizes;
}

}  // namespace tutti::data
