// The sums of the NCCL for tests (fake_nccl.cpp).
#pragma once

#include <cstddef>
#include <span>

#include "tutti/collectives/nccl/abi.h"

namespace tutti::nccl::abi {

size_t size_of(DataType type);

struct Summand {
  const void* input;
  double scale;
};

// The sum of elements [begin, begin + count) of all. It is taken in another order than theirs: of each of as many
// stretches of the elements as there are summands it begins with another one.
void sum(std::span<const Summand> summands, DataType type, size_t begin, size_t count, void* output);

}  // namespace tutti::nccl::abi
