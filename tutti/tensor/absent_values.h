#pragma once

#include <ATen/core/stack.h>

#include <cstdint>

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// In a scope whose larger variables have their values in other processes, does what a call does besides giving them
// values: a factory function makes a plain tensor in absent memory where its result has more than `most_bytes`, a write
// in place to such memory writes nothing, and either draws the random numbers that it would have drawn, of the same
// generator, in memory for some of them. Returns whether the call was one of these; else it is still to be made.
// Throws: unimplemented for an op that draws other numbers where it draws some at a time.
bool call_without_values(const c10::OperatorHandle& op, int64_t most_bytes, torch::jit::Stack& stack);

}  // namespace tutti
