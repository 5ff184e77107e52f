#pragma once

#include <cstddef>

#include "tutti/collectives/local/host_reduction.h"

namespace tutti {

// Reduces the bytes [begin, end) of each buffer of an item; both are multiples of the element's size.
// The sum of an element is ((inputs[0] + inputs[1]) + inputs[2]) + …, whatever the range and the processor: results are
// bit for bit the same. 16-bit floating-point numbers are summed in float32 and rounded once.
using ReduceKernel = void (*)(const ReductionItem& item, size_t begin, size_t end);

ReduceKernel reduce_kernel(Dtype dtype);

}  // namespace tutti
