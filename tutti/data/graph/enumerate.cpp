#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {

NodePtr enumerate(const NodePtr& input, int64_t start) {
  const NodePtr indices = range(start, start > 0 ? INT64_MAX : start + INT64_MAX, 1);
  Node node = *zip({indices, with_options(input, {.auto_shard_policy = indices->auto_shard_policy})});
  node.cardinality = input->cardinality;
  node.auto_shard_policy = input->auto_shard_policy;
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
