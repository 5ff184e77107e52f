#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {

NodePtr with_options(const NodePtr& input, const DatasetOptions& options) {
  Node node = after(input, [=](const NodePtr& other) { return with_options(other, options); });
  node.role = Role::trailing;
  node.auto_shard_policy = options.auto_shard_policy;
  node.iterate = input->iterate;
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
