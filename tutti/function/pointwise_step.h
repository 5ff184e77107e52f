#pragma once

#include <memory>

#include "tutti/function/joined_calls.h"
#include "tutti/function/pointwise_groups.h"

namespace tutti {

// A group of pointwise calls of a program as one pass over memory.
std::unique_ptr<JoinedCalls> pointwise_step(const Program& program, const CallGroup& group,
                                            const JoinedCalls::Memory& memory);

}  // namespace tutti
