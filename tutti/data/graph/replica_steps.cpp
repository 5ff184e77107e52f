#include "tutti/data/graph/replica_steps.h"

#include <ATen/ops/new_empty.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/rebatch.h"

namespace tutti::data::graph {

NodePtr deal_to_replicas(const NodePtr& input, int num_replicas) {
  if (num_replicas < 1)
    throw Error(ErrorCode::invalid_argument,
                str("distribute: ", num_replicas, " replicas; there must be at least one"));
  if (num_replicas == 1) return input;
  if (input->batch_size == kNotBatched)
    throw Error(ErrorCode::invalid_argument,
                "distribute: the dataset's elements are scalars, which cannot be divided among replicas; call "
                "batch(global_batch_size) on it first");
  const bool by_data =
      input->auto_shard_policy == AutoShardPolicy::auto_ || input->auto_shard_policy == AutoShardPolicy::data;
  if (by_data || input->batch_size < 1) return rebatch_legacy(input, num_replicas);
  return rebatch(input, batch_sizes_for_worker(input->batch_size, {.replicas_per_worker = num_replicas}), {});
}

Element place(Element element, int replica_id, const Placement& placement) {
  if (!placement) return element;
  const Keys keys = element.keys();
  std::vector<Leaf> leaves = std::move(element).leaves();
  for (Leaf& leaf : leaves)
    if (auto* tensor = std::get_if<Tensor>(&leaf)) *tensor = placement(*tensor, replica_id);
  return Element(std::move(leaves), keys);
}

namespace {

// What a replica gets for which nothing is left.
Element no_rows(const Element& other, bool row_sizes_vary) {
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

ReplicaSteps::ReplicaSteps(const NodePtr& dealt, int num_replicas, Placement placement)
    : pass_(dealt),
      num_replicas_(num_replicas),
      row_sizes_vary_(dealt->row_sizes_vary),
      placement_(std::move(placement)) {}

std::vector<Element> ReplicaSteps::next() {
  step_.clear();
  Element element;
  while (static_cast<int>(step_.size()) < num_replicas_ && pass_.next(element)) step_.push_back(std::move(element));
  if (step_.empty()) return {};
  while (static_cast<int>(step_.size()) < num_replicas_) step_.push_back(no_rows(step_.front(), row_sizes_vary_));
  return placed_step();
}

Tensor ReplicaSteps::save(bool before_last_step) {
  return save_passes({&pass_, 1}, before_last_step ? std::span<const Element>(step_) : std::span<const Element>());
}

std::vector<Element> ReplicaSteps::restore(const Tensor& state) {
  step_ = restore_passes({&pass_, 1}, state, static_cast<size_t>(num_replicas_));
  return placed_step();
}

std::vector<Element> ReplicaSteps::placed_step() const {
  std::vector<Element> step;
  for (size_t replica = 0; replica < step_.size(); ++replica)
    step.push_back(place(step_[replica], static_cast<int>(replica), placement_));
  return step;
}

}  // namespace tutti::data::graph
