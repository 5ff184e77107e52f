#pragma once

#include <cstddef>
#include <vector>

#include "tutti/collectives/local/host_reduction.h"
#include "tutti/tensor/piece_copies.h"

namespace tutti {

// Copies and sums of boxes of elements in host memory, collected and then done in one pass by the threads that LibTorch
// has for one op: run by run, where a run is contiguous on both sides.
class HostBoxes {
 public:
  // Takes on one copy into `piece`; the tensors must live until run(). Returns false for what bytes alone do not tell
  // (another device, a lazy conjugate, terms that lie in memory differently) and for runs too short to be worth it.
  bool add(const PieceCopy& copy, const Components& components, const Tensor& piece);
  // Does what was taken on.
  void run();

 private:
  struct Box {
    size_t run_bytes = 0;
    at::DimVector counts;  // of runs, along the axes they are counted by, the innermost first
    std::byte* to = nullptr;
    const std::byte* from = nullptr;         // in the first term
    at::DimVector to_strides, from_strides;  // of those axes, in bytes
  };
  static Box box_of(const PieceCopy& copy, const Tensor& term, const Tensor& piece);
  template <class Visit>
  static void for_each_run(const Box& box, Visit visit);
  void add_sum(const Box& box, const PieceCopy& copy, const Components& components);

  std::vector<Box> copies_;
  size_t copied_bytes_ = 0;
  std::vector<ReductionItem> sums_;
  std::vector<std::vector<const void*>> inputs_;  // what sums_ point to
  std::vector<std::vector<void*>> outputs_;
};

}  // namespace tutti
