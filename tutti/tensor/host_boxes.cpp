#include "tutti/tensor/host_boxes.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "tutti/tensor/dtype_of.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

constexpr size_t kMinRunBytes = 128;           // LibTorch's own loops are faster below
constexpr size_t kMinParallelBytes = 1 << 20;  // from here on a second thread pays for being woken
constexpr int64_t kMinTilesOfBoxes = 16;

// The axes as `piece` has them in memory, the innermost first.
c10::SmallVector<size_t, 8> memory_order(const Tensor& piece) {
  c10::SmallVector<size_t, 8> order(static_cast<size_t>(piece.dim()));
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return piece.strides()[a] < piece.strides()[b]; });
  return order;
}

}  // namespace

HostBoxes::Box HostBoxes::box_of(const PieceCopy& copy, const Tensor& term, const Tensor& piece) {
  const auto element = static_cast<int64_t>(piece.element_size());
  Box box;
  int64_t run = 1, to = 0, from = 0;
  for (const size_t axis : memory_order(piece)) {
    const int64_t to_stride = piece.strides()[axis], from_stride = term.strides()[axis];
    to += copy.to[axis] * to_stride;
    from += copy.from[axis] * from_stride;
    if (copy.lengths[axis] == 1) continue;
    if (box.counts.empty() && to_stride == run && from_stride == run) {
      run *= copy.lengths[axis];
      continue;
    }
    box.counts.push_back(copy.lengths[axis]);
    box.to_strides.push_back(to_stride * element);
    box.from_strides.push_back(from_stride * element);
  }
  box.run_bytes = static_cast<size_t>(run * element);
  box.to = static_cast<std::byte*>(piece.mutable_data_ptr()) + to * element;
  box.from = static_cast<const std::byte*>(term.const_data_ptr()) + from * element;
  return box;
}

// Calls visit(bytes from the beginning of the piece's box, and of the terms').
template <class Visit>
void HostBoxes::for_each_run(const Box& box, Visit visit) {
  std::vector<int64_t> index(box.counts.size(), 0);
  int64_t to = 0, from = 0;
  while (true) {
    visit(to, from);
    size_t axis = 0;
    for (; axis < index.size(); ++axis) {
      to += box.to_strides[axis];
      from += box.from_strides[axis];
      if (++index[axis] < box.counts[axis]) break;
      to -= box.counts[axis] * box.to_strides[axis];
      from -= box.counts[axis] * box.from_strides[axis];
      index[axis] = 0;
    }
    if (axis == index.size()) return;
  }
}

bool HostBoxes::add(const PieceCopy& copy, const Components& components, const Tensor& piece) {
  const Tensor& first = components[static_cast<size_t>(copy.terms[0])];
  const bool fit = std::all_of(copy.terms.begin(), copy.terms.end(), [&](int term) {
    const Tensor& value = components[static_cast<size_t>(term)];
    return in_host_memory(value) && value.scalar_type() == piece.scalar_type() && value.strides() == first.strides();
  });
  if (!fit || !in_host_memory(piece) || (copy.terms.size() > 1 && !dtype_of(piece.scalar_type()))) return false;
  Box box = box_of(copy, first, piece);
  if (box.run_bytes < kMinRunBytes && !box.counts.empty()) return false;
  if (copy.terms.size() > 1) {
    add_sum(box, copy, components);
    return true;
  }
  const int64_t runs = std::accumulate(box.counts.begin(), box.counts.end(), int64_t{1}, std::multiplies<>());
  copied_bytes_ += box.run_bytes * static_cast<size_t>(runs);
  copies_.push_back(std::move(box));
  return true;
}

void HostBoxes::add_sum(const Box& box, const PieceCopy& copy, const Components& components) {
  auto& inputs = inputs_.emplace_back();
  auto& outputs = outputs_.emplace_back();
  const auto* first = static_cast<const std::byte*>(components[static_cast<size_t>(copy.terms[0])].const_data_ptr());
  for_each_run(box, [&](int64_t to, int64_t from) {
    outputs.push_back(box.to + to);
    for (const int term : copy.terms)
      inputs.push_back(static_cast<const std::byte*>(components[static_cast<size_t>(term)].const_data_ptr()) +
                       (box.from - first) + from);
  });
  const Tensor& value = components[static_cast<size_t>(copy.terms[0])];
  const size_t terms = copy.terms.size();
  for (size_t run = 0; run < outputs.size(); ++run)
    sums_.push_back({.dtype = *dtype_of(value.scalar_type()),
                     .inputs = {inputs.data() + run * terms, terms},
                     .outputs = {outputs.data() + run, 1},
                     .count = static_cast<int64_t>(box.run_bytes / value.element_size())});
}

void HostBoxes::run() {
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Box& box = copies_[static_cast<size_t>(i)];
      for_each_run(box, [&](int64_t to, int64_t from) { std::memcpy(box.to + to, box.from + from, box.run_bytes); });
    }
  };
  const auto num_copies = static_cast<int64_t>(copies_.size());
  if (copied_bytes_ < kMinParallelBytes)
    copy(0, num_copies);
  else
    parallel_ranges(num_copies, 1, copy);
  if (!sums_.empty()) {
    // As the runs lie in a term, not piece by piece: a processor reads ahead where it is read from end to end.
    std::ranges::stable_sort(sums_, std::less<>(), [](const ReductionItem& sum) { return sum.inputs[0]; });
    HostReduction reduction(sums_);
    if (reduction.num_tiles() < kMinTilesOfBoxes)
      reduction.run();
    else
      parallel_ranges(at::get_num_threads(), 1, [&](int64_t, int64_t) { reduction.run(); });
  }
  *this = HostBoxes();
}

}  // namespace tutti
