#include "tutti/data/graph/auto_shard.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {
namespace {

// The node on other inputs; itself where they are its own.
NodePtr on_inputs(const NodePtr& node, const std::vector<NodePtr>& inputs) {
  if (inputs == node->inputs) return node;
  if (!node->rebuild)
    throw Error(ErrorCode::unimplemented, "auto-sharding: an operation of the dataset has no rebuild");
  return node->rebuild(inputs);
}

// The graph with `change` made to each node, inputs first.
template <class Change>
NodePtr transformed(const NodePtr& node, const Change& change) {
  std::vector<NodePtr> inputs;
  for (const NodePtr& input : node->inputs) inputs.push_back(transformed(input, change));
  return change(on_inputs(node, inputs));
}

// The dataset without its shuffles, which are added to `shuffles`, the first ones first.
NodePtr without_shuffles(const NodePtr& node, std::vector<NodePtr>& shuffles) {
  return transformed(node, [&](const NodePtr& changed) {
    if (changed->role != Role::shuffle) return changed;
    shuffles.push_back(changed);
    return changed->inputs.front();
  });
}

// Puts back where LibTorch's CPU generator was.
class GeneratorGuard {
 public:
  GeneratorGuard() {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorGuard() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  Tensor state_;
};

bool reads_files(const NodePtr& node);

bool function_reads_files(const NodePtr& node) {
  std::vector<NodePtr> shuffles;
  const PipelineScope scope;
  const GeneratorGuard generator;
  Element first;
  if (!without_shuffles(node->inputs.front(), shuffles)->iterate({})->next(first)) return false;
  return reads_files(node->make_dataset(std::move(first)));
}

// Whether a dataset that a function made comes from files.
bool reads_files(const NodePtr& node) {
  return node->shard_files || std::ranges::any_of(node->inputs, reads_files) ||
         (node->make_dataset && function_reads_files(node));
}

class FileSharder {
 public:
  explicit FileSharder(const PipelineSlot& slot) : slot_(slot) {}

  // The dataset with its files divided, or null where an element does not come from a file.
  NodePtr shard(const NodePtr& node) const {
    if (node->shard_files) return slot_.num_pipelines == 1 ? node : node->shard_files(slot_.num_pipelines, slot_.index);
    if (node->make_dataset && function_reads_files(node)) return on_inputs(node, {shard_names(node->inputs.front())});
    if (node->inputs.empty() || !node->rebuild) return nullptr;
    std::vector<NodePtr> inputs;
    for (const NodePtr& input : node->inputs) {
      inputs.push_back(shard(input));
      if (!inputs.back()) return nullptr;
    }
    return on_inputs(node, inputs);
  }

 private:
  NodePtr shard_names(const NodePtr& names) const {
    if (slot_.num_pipelines == 1) return names;
    std::vector<NodePtr> shuffles;
    NodePtr own = non_empty_shard(without_shuffles(names, shuffles), slot_.num_pipelines, slot_.index);
    for (const NodePtr& shuffle : shuffles) own = shuffle->rebuild({own});
    return own;
  }

  const PipelineSlot& slot_;
};

NodePtr shard_by_data(const NodePtr& node, const PipelineSlot& slot) {
  if (node->role == Role::trailing) return on_inputs(node, {shard_by_data(node->inputs.front(), slot)});
  const NodePtr dealt = node->role == Role::rebatch ? rebatch_legacy(node->inputs.front(), slot.num_replicas) : node;
  return non_empty_shard(dealt, slot.num_pipelines, slot.index);
}

NodePtr shard_by_hint(const NodePtr& dataset, const PipelineSlot& slot) {
  return transformed(dataset, [&](const NodePtr& node) {
    if (node->role != Role::shard_hint) return node;
    return non_empty_shard(node->inputs.front(), slot.num_pipelines, slot.index);
  });
}

// Whether files or data make a difference: one pipeline reads everything in either way, if it has not to be rebatched.
bool policy_matters(const NodePtr& node, const PipelineSlot& slot) {
  if (slot.num_pipelines > 1) return true;
  return node->role == Role::trailing ? policy_matters(node->inputs.front(), slot) : node->role == Role::rebatch;
}

NodePtr shard_by_file(const NodePtr& dataset, const PipelineSlot& slot) {
  if (slot.num_pipelines == 1) return dataset;
  if (NodePtr sharded = FileSharder(slot).shard(dataset)) return sharded;
  throw Error(ErrorCode::not_found,
              "auto-sharding: AutoShardPolicy::file, and the dataset has elements that come from no file; use "
              "AutoShardPolicy::data, or auto_, which falls back to it");
}

}  // namespace

NodePtr auto_shard(const NodePtr& dataset, const PipelineSlot& slot) {
  if (slot.index < 0 || slot.index >= slot.num_pipelines || slot.num_replicas < 1)
    throw Error(ErrorCode::invalid_argument,
                str("auto-sharding: pipeline ", slot.index, " of ", slot.num_pipelines, " for ", slot.num_replicas,
                    " replicas; the counts must be positive, and 0 <= index < num_pipelines"));
  switch (dataset->auto_shard_policy) {
    case AutoShardPolicy::off: return dataset;
    case AutoShardPolicy::file: return shard_by_file(dataset, slot);
    case AutoShardPolicy::data: return shard_by_data(dataset, slot);
    case AutoShardPolicy::hint: return shard_by_hint(dataset, slot);
    case AutoShardPolicy::auto_: break;
  }
  if (!policy_matters(dataset, slot)) return dataset;
  if (NodePtr sharded = FileSharder(slot).shard(dataset)) return sharded;
  return shard_by_data(dataset, slot);
}

}  // namespace tutti::data::graph
