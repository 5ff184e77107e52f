#pragma once

#include "tutti/data/graph/node.h"
#include "tutti/data/placement.h"

namespace tutti::data::graph {

// The node whose successive elements are dealt to the replicas of one process: the dataset itself for one replica; else
// its batches cut by ceil(rows / replicas) under AutoShardPolicy auto_ and data and where the batch size is unknown,
// and by sizes that differ by at most one, across the ends of short batches, under the others. So does TensorFlow 2.21,
// whose sharding by data rewrites the second form into the first even for a single pipeline. Throws: invalid_argument
// for no replica, and for elements that are known not to be batched.
NodePtr deal_to_replicas(const NodePtr& input, int num_replicas);

// The element with every tensor where the replica computes.
Element place(Element element, int replica_id, const Placement& placement);

// One pass over steps: each takes one element per replica. Replicas for which the last step has none get zero rows.
class ReplicaSteps {
 public:
  ReplicaSteps(const NodePtr& dealt, int num_replicas, Placement placement);

  // The elements of the next step, one per replica, or nothing at the end.
  std::vector<Element> next();

  // Where the pass is, before the last step or after it. restore() returns that step if it is still to come, else
  // nothing. Throws: as Pass.
  Tensor save(bool before_last_step);
  std::vector<Element> restore(const Tensor& state);

 private:
  std::vector<Element> placed_step() const;

  Pass pass_;
  int num_replicas_;
  bool row_sizes_vary_;
  Placement placement_;
  std::vector<Element> step_;  // the last one, before it is placed
};

}  // namespace tutti::data::graph
