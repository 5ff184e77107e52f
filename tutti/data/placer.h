#pragma once

#include <functional>

#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

// Puts a leaf where a replica computes; called on the thread that iterates. Empty: the leaf as it is.
using Placer = std::function<Tensor(const Tensor& leaf, int replica_id)>;

}  // namespace tutti::data
