#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tutti/function/pointwise_op.h"
#include "tutti/function/program.h"

namespace tutti {

struct JoinedProof;

// A 2 x 2 max pooling of relu(self), or its gradient: numbers of values.
struct PooledRelu {
  int self, rectified, pooled, where;            // rectified: as the pooling takes it; where: of each pooled element
  int gradient = -1, result = -1;                // of `pooled` and of `self`; -1: it is the pooling
  std::shared_ptr<JoinedProof> proof = nullptr;  // of both
};

// Calls that are made in a row: one, or several that compute the elements of one result shape, so that a single pass
// over memory makes them all, or a pooling and its relu.
struct CallGroup {
  std::vector<const Program::Call*> calls;
  std::vector<PointwiseOp> ops;            // of the calls; empty: one call of another kind
  std::vector<bool> kept;                  // of ops: whether a result is needed in memory; else only the group uses it
  std::optional<PooledRelu> pooling = {};  // of two calls
};

// The calls in an order that gives the same values, with pointwise ones moved forward to others that they can join.
// What can throw is not overtaken by what writes memory from outside. Requires: `calls` in the program's order.
std::vector<CallGroup> group_calls(const Program& program, const std::vector<const Program::Call*>& calls);

}  // namespace tutti
