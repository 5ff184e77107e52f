#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <type_traits>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/core/structure.h"

namespace tutti {

using Tensor = at::Tensor;

// For each leaf of the replicas' structures what the replicas hold of it. `call` is named in errors.
// Throws: invalid_argument where the structures differ.
std::vector<PerReplica<Tensor>> leaf_columns(const char* call, std::span<const structure::Flat<Tensor>> replicas);

template <class T>
std::vector<PerReplica<Tensor>> leaf_columns(const char* call, const PerReplica<T>& values) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return {values};
  } else {
    std::vector<structure::Flat<Tensor>> replicas;
    for (const T& value : values) replicas.push_back(structure::flatten<Tensor>(value));
    return leaf_columns(call, replicas);
  }
}

}  // namespace tutti
