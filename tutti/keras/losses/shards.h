#pragma once

#include <cstdint>
#include <optional>

#include "tutti/core/tensor_fwd.h"
#include "tutti/distribute/replica_context.h"

namespace tutti::keras::losses {

// The parts that the replicas hold of one global batch, seen from one of them: what a loss asks that is no sum over
// samples, so that it comes out as on one device. With one shard all questions are answered without communication.
class Shards {
 public:
  // One shard: the batch itself.
  Shards() = default;

  // Those of the replicas that run the caller's function; one outside of run.
  static Shards of_replicas();

  int64_t count() const;

  // The elementwise sum over the shards. Ranks: all replicas. Grad: as ReplicaContext::all_reduce.
  Tensor sum(const Tensor& x) const;

  // The rows of all shards, in their order. Ranks: all replicas. Grad: as ReplicaContext::all_gather.
  Tensor concatenate(const Tensor& rows) const;

  // How many rows lie in the shards before this one. Ranks: all replicas.
  int64_t rows_before(const Tensor& rows) const;

 private:
  std::optional<ReplicaContext> context_;  // none: one shard
};

}  // namespace tutti::keras::losses
