#include "tutti/distribute/leaf_columns.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

std::vector<PerReplica<Tensor>> leaf_columns(const char* call, std::span<const structure::Flat<Tensor>> replicas) {
  const auto& first = replicas[0];
  for (size_t r = 1; r < replicas.size(); ++r)
    if (replicas[r].form != first.form || replicas[r].leaves.size() != first.leaves.size())
      throw Error(
          ErrorCode::invalid_argument,
          str(call, ": replica ", r, " has ", replicas[r].leaves.size(), " tensors in the structure ", replicas[r].form,
              ", replica 0 has ", first.leaves.size(), " in ", first.form, "; names and lengths must be equal"));
  std::vector<PerReplica<Tensor>> columns;
  for (size_t leaf = 0; leaf < first.leaves.size(); ++leaf) {
    std::vector<Tensor> column;
    for (const auto& replica : replicas) column.push_back(replica.leaves[leaf]);
    columns.emplace_back(std::move(column));
  }
  return columns;
}

}  // namespace tutti
