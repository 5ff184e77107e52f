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

Node after(const NodePtr& input) {
  Node node;
  node.inputs = {input};
  node.cardinality = input->cardinality;
  node.batch_size = input->batch_size;
  node.row_sizes_vary = input->row_sizes_vary;
  node.auto_shard_policy = input->auto_shard_policy;
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

int64_t common_batch_size(const std::vector<NodePtr>& inputs) {
  int64_t result = inputs.front()->batch_size;
  for (const NodePtr& input : inputs) {
    if (input->batch_size == kNotBatched) return kNotBatched;
    if (input->batch_size != result) result = kUnknown;
  }
  return result;
}

AutoShardPolicy common_policy(const std::vector<NodePtr>& inputs) {
  const AutoShardPolicy policy = inputs.front()->auto_shard_policy;
  if (!std::ranges::all_of(inputs, [&](const NodePtr& input) { return input->auto_shard_policy == policy; }))
    throw Error(ErrorCode::invalid_argument,
                "zip, concatenate: the datasets have different auto-shard policies; call with_options on the result");
  return policy;
}

}  // namespace tutti::data::graph
