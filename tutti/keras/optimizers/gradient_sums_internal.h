#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tutti/collectives/brought.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
class Strategy;
}

namespace tutti::keras::optimizers {

// What a replica brings to the meeting.
struct GradientShare {
  std::span<const Tensor> gradients;
  std::span<const Tensor> variables;
};

// The sums over the replicas of their gradients, with memory that serves from step to step.
class GradientSums {
 public:
  // Variable by variable, in replica order, on the variables' mesh; a gradient that a replica lacks counts as zero.
  // Undefined where all lack it. The sums stay until the next call, or release(). Throws: invalid_argument for lists of
  // different length, or gradients that differ in shape, dtype or layout.
  std::span<const Tensor> take(Brought<GradientShare> shares, const Strategy& strategy);
  void release();

 private:
  std::vector<BufferSum> items_;
  std::vector<size_t> owners_;  // of the items
  std::vector<Tensor> sums_;
};

}  // namespace tutti::keras::optimizers
