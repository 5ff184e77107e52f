#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

NodePtr with_indices(const NodePtr& indices, const NodePtr& input) {
  Node node = *zip({indices, with_options(input, {.auto_shard_policy = indices->auto_shard_policy})});
  node.inputs = {indices, input};
  node.rebuild = [](const std::vector<NodePtr>& inputs) { return with_indices(inputs.at(0), inputs.at(1)); };
  node.cardinality = input->cardinality;
  node.auto_shard_policy = input->auto_shard_policy;
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr enumerate(const NodePtr& input, int64_t start) {
  return with_indices(range(start, start > 0 ? INT64_MAX : start + INT64_MAX, 1), input);
}

}  // namespace tutti::data::graph
