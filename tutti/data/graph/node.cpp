#include "tutti/data/graph/node.h"

#include <algorithm>
#include <unordered_set>

#include "tutti/core/error.h"
#include "tutti/core/release_queue.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/pipeline_scope.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::data::graph {

// The first bytes of a state; another number stands for another form.
constexpr auto kFormat = "iterator state 3";

namespace {

int64_t common(const std::vector<NodePtr>& inputs, int64_t Node::*batch_size) {
  const auto is = [&](int64_t size) { return [=](const NodePtr& input) { return (*input).*batch_size == size; }; };
  if (std::ranges::any_of(inputs, is(kNotBatched))) return kNotBatched;
  const int64_t first = (*inputs.front()).*batch_size;
  return std::ranges::all_of(inputs, is(first)) ? first : kUnknown;
}

AutoShardPolicy common_policy(const std::vector<NodePtr>& inputs) {
  const AutoShardPolicy policy = inputs.front()->auto_shard_policy;
  if (!std::ranges::all_of(inputs, [&](const NodePtr& input) { return input->auto_shard_policy == policy; }))
    throw Error(ErrorCode::invalid_argument,
                "zip, concatenate: the datasets have different auto-shard policies; call with_options on the result");
  return policy;
}

}  // namespace

Node after(const NodePtr& input, std::function<NodePtr(const NodePtr& input)> rebuild) {
  Node node;
  node.inputs = {input};
  node.rebuild = [rebuild = std::move(rebuild)](const std::vector<NodePtr>& inputs) { return rebuild(inputs.at(0)); };
  node.cardinality = input->cardinality;
  node.batch_size = input->batch_size;
  node.batch_size_of_rows = input->batch_size_of_rows;
  node.row_sizes_vary = input->row_sizes_vary;
  node.uniform = input->uniform;
  node.auto_shard_policy = input->auto_shard_policy;
  return node;
}

Node after_all(const std::vector<NodePtr>& inputs, std::function<NodePtr(const std::vector<NodePtr>& inputs)> rebuild) {
  Node node;
  node.inputs = inputs;
  node.rebuild = std::move(rebuild);
  node.batch_size = common(inputs, &Node::batch_size);
  node.batch_size_of_rows = common(inputs, &Node::batch_size_of_rows);
  const auto row_sizes_vary = [](const NodePtr& input) { return input->row_sizes_vary; };
  const auto uniform = [](const NodePtr& input) { return input->uniform; };
  node.row_sizes_vary = std::ranges::any_of(inputs, row_sizes_vary);
  node.uniform = std::ranges::all_of(inputs, uniform);
  node.auto_shard_policy = common_policy(inputs);
  return node;
}

namespace {

void collect(const Node& node, std::unordered_set<const Node*>& seen, std::vector<const Node*>& nodes) {
  if (!seen.insert(&node).second) return;
  nodes.push_back(&node);
  for (const NodePtr& input : node.inputs) collect(*input, seen, nodes);
}

}  // namespace

std::vector<const Node*> nodes_of(const Node& graph) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> nodes;
  collect(graph, seen, nodes);
  return nodes;
}

void Pass::begin() {
  if (begun_) return;
  begun_ = failed_ = true;
  numbers_ = std::make_shared<PassNumbers>();
  std::unordered_set<SharedState*> shared;
  for (const Node* part : nodes_of(*node_))
    if (part->shared && shared.insert(part->shared.get()).second) part->shared->begin(*numbers_);
  iterator_ = node_->iterate({.numbers = numbers_});
  failed_ = false;
}

bool Pass::next(Element& element) {
  if (CallRecorder* const recorder = CallRecorder::current())
    recorder->refuse(Error(ErrorCode::failed_precondition,
                           "a dataset is asked for an element while a function is recorded, which a replay would not "
                           "do; pass its iterator to the function, and take elements by next(iterator)"));
  ReleaseQueue::of_this_thread()->release();
  const PipelineScope scope;
  begin();
  if (!iterator_) return false;
  failed_ = true;
  const bool any = iterator_->next(element);
  failed_ = false;
  return any;
}

Tensor save_passes(std::span<Pass> passes, std::span<const Element> taken) {
  const PipelineScope scope;
  for (Pass& pass : passes) pass.begin();
  if (std::ranges::any_of(passes, &Pass::failed_))
    throw Error(ErrorCode::failed_precondition,
                "saving an iterator: an error came out of it, so that it has no position to save; keep the last state");
  StateWriter state({});
  state.op(kFormat);
  for (const Pass& pass : passes) {
    state.use(pass.numbers_);
    state.graph(*pass.node_);
    pass.iterator_->save(state);
  }
  state.elements(taken);
  return state.finish();
}

RestoredPasses read_passes(std::span<Pass> passes, const Tensor& state, size_t max_taken) {
  const PipelineScope scope;
  const auto reader = std::make_shared<StateReader>(state, Tables());
  reader->op(kFormat);
  const auto read = std::make_shared<std::vector<Pass>>();
  for (const Pass& pass : passes) {
    const auto numbers = std::make_shared<PassNumbers>();
    reader->use(numbers);
    reader->graph(*pass.node_);
    auto iterator = pass.node_->iterate({.numbers = numbers});
    iterator->restore(*reader);
    read->push_back(Pass(pass.node_, std::move(iterator), numbers));
  }
  std::vector<Element> taken = reader->elements();
  if (taken.size() > max_taken) reader->refuse(str(taken.size(), " elements are still to come"));
  reader->finish();
  const auto go = [=] {
    for (size_t i = 0; i < passes.size(); ++i) passes[i] = std::move((*read)[i]);
    reader->restored();  // now that the threads of the passes that were left are gone
  };
  return {std::move(taken), go};
}

int64_t total_cardinality(const std::vector<NodePtr>& inputs) {
  int64_t total = 0;
  for (const NodePtr& input : inputs) {
    if (input->cardinality == kInfinite) return kInfinite;
    if (input->cardinality == kUnknown) total = kUnknown;
    if (total != kUnknown && __builtin_add_overflow(total, input->cardinality, &total)) total = kUnknown;
  }
  return total;
}

}  // namespace tutti::data::graph
