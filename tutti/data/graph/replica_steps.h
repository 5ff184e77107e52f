#pragma once

#include <memory>
#include <optional>

#include "tutti/data/graph/node.h"
#include "tutti/data/placer.h"
#include "tutti/data/rebatch.h"

namespace tutti {
class Processes;
}

namespace tutti::data::graph {

// The number of rows of a full element, as far as the graph shows it without being run, or kUnknown.
// TF: compute_batch_size. Throws: invalid_argument for elements that are known to hold a scalar.
int64_t compute_batch_size(const NodePtr& input);

// This process's input pipeline among those of several processes; null: of the only one.
WorkerSlot slot_of(const std::shared_ptr<Processes>& processes, int replicas_per_worker);

// The node whose successive elements are dealt to the replicas of one worker, whose input pipeline it is. Batches are
// cut for the replicas of all workers, by batch_sizes_for_worker() where their size is known and as replica_rows() says
// where it is not; then auto_shard() takes the worker's part. So with the policies data and auto_ batches in memory are
// cut as replica_rows() says, also for one worker. With one replica in all there is nothing to cut.
// There is no prefetch() at the end, as TensorFlow has one: user code would run ahead of the program on another thread,
// where a pass is left early too, and a slice of a batch costs less than handing it over.
// Throws: invalid_argument for counts that are not positive, a worker that is none of them, elements that are known not
// to be batched; as auto_shard.
NodePtr deal_to_replicas(const NodePtr& input, const WorkerSlot& slot);

// The element with every tensor where the replica computes.
Element place(Element element, int replica_id, const Placer& placer);

// One pass over steps: each takes one element per replica. Replicas for which the last step has none get zero rows; if
// the pipelines' elements are uniform, that step is left out instead. With several processes, which all make the same
// calls, the replicas of all count: a process whose data has ended gets zero rows until that of all has. Where a
// process's data throws, the others throw cancelled, and all go on with that step.
class ReplicaSteps {
 public:
  // Each pipeline feeds as many replicas, the first pipeline the first ones.
  ReplicaSteps(const std::vector<NodePtr>& pipelines, int num_replicas, Placer placer,
               std::shared_ptr<Processes> processes = {});

  // The elements of the next step, one per replica, or nothing at the end. After an exception it goes on with that
  // step, behind what failed.
  std::vector<Element> next();

  // Where the pass is, before the last step or after it; and, of a state, that step if it is still to come, else
  // nothing, with what is to be done to go there. Throws: as save_passes(), read_passes(); failed_precondition for the
  // state of another number of processes.
  Tensor save(bool before_last_step);
  RestoredPasses read(const Tensor& state);

 private:
  void fill();
  bool agree_on_step();
  void share_sample();
  std::vector<Element> placed(const std::vector<Element>& step) const;

  std::vector<Pass> passes_;
  size_t num_replicas_;
  bool row_sizes_vary_;
  bool uniform_;
  Placer placer_;
  std::shared_ptr<Processes> processes_;
  std::optional<Element> sample_;  // without rows; of several processes: what this one's elements are like
  std::vector<Element> step_;      // the last one, before it is placed
  std::vector<Element> filled_;    // of the first replicas, when an error came out for the next one
  std::vector<size_t> without_;    // those of them for which nothing is left, ascending
};

}  // namespace tutti::data::graph
