#pragma once

#include <cstddef>
#include <span>

#include "tutti/collectives/dtype.h"

namespace tutti {

// The most bytes of one buffer that a BlockSum takes at a time: the same block of every buffer stays in the L1 cache.
inline constexpr size_t kBlockBytes = 4096;

// Writes (inputs[0] + inputs[1] + …) / divisor to output, elementwise and in this order: bit for bit the same however a
// buffer is cut into blocks. 16-bit floating-point numbers are summed in float32 and rounded once.
// Reads and writes `num_bytes`, a multiple of the element's size, from `offset` on in every buffer. The output may be
// one of the inputs.
using BlockSum = void (*)(std::span<const void* const> inputs, void* output, size_t offset, size_t num_bytes,
                          double divisor);

BlockSum block_sum(Dtype dtype);

}  // namespace tutti
