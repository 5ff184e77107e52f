#pragma once

#include <utility>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/data/graph/replica_steps.h"
#include "tutti/data/placer.h"
#include "tutti/data/rebatch.h"
#include "tutti/data/structure.h"

namespace tutti::data {

// The replicas of this process among those of all.
struct LocalReplicas {
  LocalReplicas(int count) : LocalReplicas(count, 0, count) {}
  LocalReplicas(int count, int first, int total) : count(count), first(first), total(total) {}

  int count, first, total;
};

namespace distributed_tensors_internal {

template <class T>
T placed(T value, int replica_id, const Placer& placer) {
  return from_element<T>(graph::place(to_element(std::move(value)), replica_id, placer));
}

}  // namespace distributed_tensors_internal

// A tensor or strings, or a structure of them, cut along axis 0 as a batch of a dataset is: see replica_rows(). Slices
// are views; one replica gets the whole. Of several processes each gets the parts of its own replicas. Throws:
// invalid_argument for a scalar leaf, unequal numbers of rows, no replica.
template <class T>
PerReplica<T> distribute_tensors(T value, const LocalReplicas& replicas, const Placer& placer = {}) {
  using distributed_tensors_internal::placed;
  if (replicas.total == 1) return PerReplica<T>({placed(std::move(value), 0, placer)});
  graph::Element whole = to_element(std::move(value));
  const std::vector<graph::Leaf> leaves = whole.leaves();
  const int64_t num_rows = graph::num_rows(leaves, "distribute");
  std::vector<T> values;
  for (int replica = 0; replica < replicas.count; ++replica) {
    const RowRange rows =
        replica_rows(num_rows, {.replica_id = replicas.first + replica, .num_replicas = replicas.total});
    graph::Element slice(graph::narrow_rows(leaves, rows.first, rows.count), whole.keys());
    values.push_back(from_element<T>(graph::place(std::move(slice), replica, placer)));
  }
  return PerReplica<T>(std::move(values));
}

// A vector of examples, cut the same way.
template <class T>
PerReplica<std::vector<T>> distribute_tensors(std::vector<T> examples, const LocalReplicas& replicas,
                                              const Placer& placer = {}) {
  std::vector<std::vector<T>> values;
  for (int replica = 0; replica < replicas.count; ++replica) {
    const RowRange rows = replica_rows(static_cast<int64_t>(examples.size()),
                                       {.replica_id = replicas.first + replica, .num_replicas = replicas.total});
    std::vector<T>& slice = values.emplace_back();
    for (int64_t row = rows.first; row < rows.first + rows.count; ++row)
      slice.push_back(distributed_tensors_internal::placed(std::move(examples[row]), replica, placer));
  }
  return PerReplica<std::vector<T>>(std::move(values));
}

}  // namespace tutti::data
