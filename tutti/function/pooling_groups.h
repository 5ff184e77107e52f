#pragma once

#include <memory>
#include <vector>

#include "tutti/function/joined_calls.h"
#include "tutti/function/pointwise_groups.h"

namespace tutti {

// Joins each relu with the 2 x 2 max pooling behind it, and the gradient of the latter with that of the former, where
// the result of relu is used for nothing else: it is then neither written nor read, since what it lets through in the
// backward pass follows from the pooled values.
// `build`: an argument, of which the memory is not looked at.
std::vector<CallGroup> join_poolings(const Program& program, std::vector<CallGroup> groups,
                                     FunctionRef<at::IValue(const Program::Operand&)> build);

// A group that has a pooling.
std::unique_ptr<JoinedCalls> pooling_step(const Program& program, const CallGroup& group,
                                          const JoinedCalls::Memory& memory);

}  // namespace tutti
