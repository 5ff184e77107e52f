#include "tutti/data/graph/node.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {

void Iterator::save(StateWriter&) {
  throw Error(ErrorCode::unimplemented, "saving an iterator: an operation of the dataset cannot yet");
}
void Iterator::restore(StateReader&) {
  throw Error(ErrorCode::unimplemented, "restoring an iterator: an operation of the dataset cannot yet");
}

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

Pass::Pass(const NodePtr& node) {
  const PipelineScope scope;
  iterator_ = node->iterate({});
}

bool Pass::next(Element& element) {
  const PipelineScope scope;
  return iterator_->next(element);
}

}  // namespace tutti::data::graph
