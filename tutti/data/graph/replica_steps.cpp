#include "tutti/data/graph/replica_steps.h"

#include <ATen/ops/new_empty.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/auto_shard.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {

int64_t compute_batch_size(const NodePtr& dataset) {
  if (dataset->batch_size == kNotBatched)
    throw Error(ErrorCode::invalid_argument,
                "distribute: the dataset's elements are scalars, which cannot be divided among replicas; call "
                "batch(global_batch_size) on it first");
  return dataset->batch_size;
}

NodePtr deal_to_replicas(const NodePtr& input, const WorkerSlot& slot) {
  if (slot.num_workers < 1 || slot.replicas_per_worker < 1)
    throw Error(ErrorCode::invalid_argument, str("distribute: ", slot.num_workers, " workers with ",
                                                 slot.replicas_per_worker, " replicas; there must be at least one"));
  const int num_replicas = slot.num_workers * slot.replicas_per_worker;
  NodePtr dealt = input;
  if (num_replicas > 1) {
    const int64_t global_batch = compute_batch_size(input);
    dealt = global_batch < 1 ? rebatch_legacy(input, num_replicas)
                             : rebatch(input, batch_sizes_for_worker(global_batch, slot), {});
  }
  return auto_shard(dealt, {.num_pipelines = slot.num_workers, .index = slot.worker, .num_replicas = num_replicas});
}

Element place(Element element, int replica_id, const Placer& placer) {
  if (!placer) return element;
  const Keys keys = element.keys();
  std::vector<Leaf> leaves = std::move(element).leaves();
  for (Leaf& leaf : leaves)
    if (auto* tensor = std::get_if<Tensor>(&leaf)) *tensor = placer(*tensor, replica_id);
  return Element(std::move(leaves), keys);
}

namespace {

// What a replica gets for which nothing is left.
Element no_rows(const Element& other, bool row_sizes_vary) {
  num_rows(other.leaves(), "distribute");
  std::vector<Leaf> leaves = narrow_rows(other.leaves(), 0, 0);
  for (Leaf& leaf : leaves) {
    if (!row_sizes_vary) break;
    const std::vector<int64_t> none(shape_of(leaf).size(), 0);
    if (auto* tensor = std::get_if<Tensor>(&leaf))
      *tensor = tensor->new_empty(none);
    else
      leaf = Strings({}, none);
  }
  return Element(std::move(leaves), other.keys());
}

}  // namespace

ReplicaSteps::ReplicaSteps(const std::vector<NodePtr>& pipelines, int num_replicas, Placer placer)
    : num_replicas_(static_cast<size_t>(num_replicas)), placer_(std::move(placer)) {
  passes_.reserve(pipelines.size());
  for (const NodePtr& pipeline : pipelines) passes_.emplace_back(pipeline);
  row_sizes_vary_ = std::ranges::any_of(pipelines, [](const NodePtr& pipeline) { return pipeline->row_sizes_vary; });
  uniform_ = std::ranges::all_of(pipelines, [](const NodePtr& pipeline) { return pipeline->uniform; });
}

std::vector<Element> ReplicaSteps::next() {
  const size_t replicas_per_pipeline = num_replicas_ / passes_.size();
  while (filled_.size() < num_replicas_) {
    Element element;
    if (!passes_[filled_.size() / replicas_per_pipeline].next(element)) without_.push_back(filled_.size());
    filled_.push_back(std::move(element));
  }
  step_ = std::exchange(filled_, {});
  const std::vector<size_t> without = std::exchange(without_, {});
  if (without.size() == num_replicas_ || (uniform_ && !without.empty())) step_.clear();
  size_t other = 0;
  while (other < without.size() && without[other] == other) ++other;
  for (const size_t replica : without)
    if (!step_.empty()) step_[replica] = no_rows(step_[other], row_sizes_vary_);
  return placed(step_);
}

Tensor ReplicaSteps::save(bool before_last_step) {
  return save_passes(passes_, before_last_step ? std::span<const Element>(step_) : std::span<const Element>());
}

RestoredPasses ReplicaSteps::read(const Tensor& state) {
  RestoredPasses restored = read_passes(passes_, state, num_replicas_);
  std::vector<Element> step = restored.taken;
  restored.taken = placed(step);
  restored.go = [this, go = std::move(restored.go), step = std::move(step)] {
    go();
    step_ = step;
    filled_.clear();
    without_.clear();
  };
  return restored;
}

std::vector<Element> ReplicaSteps::placed(const std::vector<Element>& step) const {
  std::vector<Element> placed;
  for (size_t replica = 0; replica < step.size(); ++replica)
    placed.push_back(place(step[replica], static_cast<int>(replica), placer_));
  return placed;
}

}  // namespace tutti::data::graph
