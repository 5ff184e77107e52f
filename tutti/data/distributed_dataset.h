#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/per_replica.h"
#include "tutti/core/str.h"
#include "tutti/data/dataset.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/replica_steps.h"
#include "tutti/tensor/savable.h"

namespace tutti::data {

// One pass over a distributed dataset. A step is computed when it is first looked at. What throws there stands in the
// place of a step: the iterator is not at its end, and ++ goes on behind. A part of a checkpoint, as DatasetIterator
// is. TF: tf.distribute.DistributedIterator.
template <class T>
class DistributedIterator : public Savable {
 public:
  using value_type = PerReplica<T>;
  using difference_type = std::ptrdiff_t;

  explicit DistributedIterator(graph::ReplicaSteps steps) : steps_(std::move(steps)) {}

  // Throws: failed_precondition where there is no step, as the iterator is at its end, or the step has thrown.
  const PerReplica<T>& operator*() const { return value(); }
  const PerReplica<T>* operator->() const { return &value(); }
  DistributedIterator& operator++() {
    look();
    begun_ = false;
    value_.reset();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const DistributedIterator& iterator, std::default_sentinel_t) {
    iterator.look();
    return !iterator.value_ && !iterator.failed_;
  }

  // The current step's values, moving on; at the end nothing, or out_of_range thrown. Where the step throws, the next
  // call goes on behind it.
  std::optional<PerReplica<T>> next_as_optional() {
    if (failed_) begun_ = false;
    look();
    begun_ = false;
    return std::exchange(value_, std::nullopt);
  }
  PerReplica<T> next() {
    if (auto step = next_as_optional()) return *std::move(step);
    throw Error(ErrorCode::out_of_range, "DistributedIterator::next: the dataset is at its end");
  }

  // Where the iterator is, and back there: see DatasetIterator. A step that was looked at and not passed counts as
  // still to come. The state belongs to the number of replicas that the dataset was distributed to, and of processes,
  // all of which save it together.
  Tensor save_state() { return steps_.save(/*before_last_step=*/value_.has_value()); }
  void restore_state(const Tensor& state) { read_state(state)(); }
  void visit_state(StateVisitor& visitor) override {
    visitor.prepared(
        "position", [this] { return save_state(); }, [this](const Tensor& state) { return read_state(state); });
  }

 private:
  // What goes there; nothing of it was done.
  std::function<void()> read_state(const Tensor& state) {
    graph::RestoredPasses restored = steps_.read(state);
    std::optional<PerReplica<T>> step = together(std::move(restored.taken));
    return [this, go = std::move(restored.go), step = std::move(step)] {
      go();
      value_ = step;
      begun_ = step.has_value();
      failed_ = false;
    };
  }

  // Nothing for no elements.
  static std::optional<PerReplica<T>> together(std::vector<graph::Element> step) {
    if (step.empty()) return {};
    std::vector<T> values;
    for (graph::Element& element : step) values.push_back(from_element<T>(std::move(element)));
    return PerReplica<T>(std::move(values));
  }

  void look() const {
    if (begun_) return;
    begun_ = failed_ = true;
    value_ = together(steps_.next());
    failed_ = false;
  }

  const PerReplica<T>& value() const {
    look();
    if (!value_)
      throw Error(ErrorCode::failed_precondition,
                  failed_ ? "DistributedIterator: the step has thrown, so that there is none; go on with ++"
                          : "DistributedIterator: the iterator is at its end, where there is no step");
    return *value_;
  }

  mutable graph::ReplicaSteps steps_;
  mutable std::optional<PerReplica<T>> value_;
  mutable bool begun_ = false;   // the current step, or the end, was asked for
  mutable bool failed_ = false;  // and has thrown
};

// What the replicas of this process get: one element each in every step. With several processes these replicas are some
// of all, the dataset is the same everywhere, and every process takes as many steps: see graph::ReplicaSteps. TF:
// tf.distribute.DistributedDataset.
template <class T>
class DistributedDataset {
 public:
  using value_type = PerReplica<T>;

  // Batches (of the global batch size) are divided among the replicas, as slices that are views of the batch.
  // graph::deal_to_replicas() has the rule; a replica for which nothing is left in the last step gets tensors of zero
  // rows. With one replica each element is that replica's. TF: experimental_distribute_dataset.
  // Throws: invalid_argument for elements that are known not to be batched; where only running tells, iterating throws
  // it; what auto-sharding throws.
  DistributedDataset(const Dataset<T>& dataset, int num_replicas, Placer placer = {},
                     int64_t per_replica_buffer_size = 1, std::shared_ptr<Processes> processes = {})
      : num_replicas_(num_replicas), placer_(std::move(placer)), processes_(std::move(processes)) {
    add(graph::deal_to_replicas(dataset.node(), graph::slot_of(processes_, num_replicas)), per_replica_buffer_size);
  }

  // Every replica takes whole elements of its pipeline, in turn with the others that the pipeline feeds: as many for
  // each pipeline, the first replicas for the first. A replica for which the last step has none gets zero rows; where
  // all elements have one shape, as with drop_remainder, that step is left out.
  // TF: distribute_datasets_from_function.
  DistributedDataset(const std::vector<Dataset<T>>& pipelines, int num_replicas, Placer placer = {},
                     int64_t per_replica_buffer_size = 1, std::shared_ptr<Processes> processes = {})
      : num_replicas_(num_replicas), placer_(std::move(placer)), processes_(std::move(processes)) {
    for (const Dataset<T>& pipeline : pipelines) add(pipeline.node(), per_replica_buffer_size);
    if (pipelines.empty() || num_replicas_ % static_cast<int>(pipelines.size()) != 0)
      throw Error(ErrorCode::invalid_argument, str("distribute: ", pipelines.size(), " pipelines for ", num_replicas,
                                                   " replicas; each must feed as many"));
  }

  DistributedIterator<T> begin() const {
    return DistributedIterator<T>(graph::ReplicaSteps(pipelines_, num_replicas_, placer_, processes_));
  }
  std::default_sentinel_t end() const { return {}; }

  // state = f(state, values of the replicas), from the initial state on; returns the last state. f may call
  // strategy.run. TF: tf.distribute.DistributedDataset.reduce.
  template <class S, class F>
  S reduce(S initial, const F& f) const {
    for (DistributedIterator<T> step = begin(); step != end(); ++step) initial = f(std::move(initial), *step);
    return initial;
  }

 private:
  void add(graph::NodePtr pipeline, int64_t per_replica_buffer_size) {
    const int64_t ahead = (per_replica_buffer_size - 1) * num_replicas_;
    pipelines_.push_back(ahead > 0 ? graph::prefetch(pipeline, ahead) : std::move(pipeline));
  }

  std::vector<graph::NodePtr> pipelines_;
  int num_replicas_;
  Placer placer_;
  std::shared_ptr<Processes> processes_;
};

}  // namespace tutti::data
