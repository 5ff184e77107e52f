#include "tutti/data/graph/node.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {

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
