#include "tutti/tensor/sum_buffers.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/dtype_of.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/sum_of.h"

namespace tutti {
namespace {

// From here on a second thread pays for being woken.
constexpr int64_t kMinTilesOfSum = 64;

// Whether element i of every value lies, as it is, at the same place of a dense buffer in host memory.
bool are_dense_alike(const BufferSum& item) {
  const Tensor& first = item.values[0];
  if (item.result.defined() && item.result.strides() != first.strides()) return false;
  return std::all_of(item.values.begin(), item.values.end(), [&](const Tensor& value) {
    return dense_in_host_memory(value) && value.scalar_type() == first.scalar_type() &&
           value.sizes() == first.sizes() && value.strides() == first.strides() && !value.requires_grad();
  });
}

// One value is its own sum, but where another place is given for it.
bool is_to_be_summed(const BufferSum& item) { return item.values.size() > 1 || item.result.defined(); }

void sum_by_ops(BufferSum& item) {
  Tensor sum = item.values[0];
  for (size_t i = 1; i < item.values.size(); ++i) sum = sum_of(sum, item.values[i].to(sum.device()));
  if (item.divisor != 1) sum = sum.div(item.divisor);
  item.result = item.result.defined() ? item.result.copy_(sum) : sum;
  for (int i = 0; i < item.num_copies; ++i) item.copies.push_back(item.result.clone());
}

bool is_ours_alone(const Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

// Memory for what is missing of the results.
void make_results(BufferSum& item) {
  if (!item.result.defined())
    item.result = is_ours_alone(item.values[0]) ? item.values[0] : at::empty_like(item.values[0]);
  while (std::ssize(item.copies) < item.num_copies) item.copies.push_back(at::empty_like(item.values[0]));
}

// What compilers know it by.
const char* name_of_sum(const BufferSum& item) {
  if (item.divisor == 1) return "sum";
  return item.divisor == static_cast<double>(item.values.size()) ? "mean" : "divided sum";
}

// A recording sums the values that a replay has in these places.
void record_sum(BufferSum& item, const ParallelCall& parallel) {
  if (!item.result.defined()) item.result = at::empty_like(item.values[0]);
  make_results(item);
  std::vector<Tensor> tensors{item.result};
  tensors.insert(tensors.end(), item.copies.begin(), item.copies.end());
  const std::vector<Tensor> results = tensors;
  tensors.insert(tensors.end(), item.values.begin(), item.values.end());
  const auto num_results = static_cast<std::ptrdiff_t>(results.size());
  host_step(name_of_sum(item), tensors, results,
            [num_results, divisor = item.divisor, parallel](at::ArrayRef<Tensor> now) {
              BufferSum sum{.values = {now.begin() + num_results, now.end()},
                            .divisor = divisor,
                            .num_copies = static_cast<int>(num_results) - 1,
                            .result = now[0],
                            .copies = {now.begin() + 1, now.begin() + num_results}};
              sum_buffers({&sum, 1}, parallel);
            });
}

}  // namespace

void sum_buffers(std::span<BufferSum> items, const ParallelCall& parallel, SumLists* lists) {
  SumLists own;
  auto& [reductions, inputs, outputs] = lists ? *lists : own;
  reductions.clear();
  inputs.clear();
  outputs.clear();
  size_t num_inputs = 0, num_outputs = 0;
  for (const BufferSum& item : items) {
    num_inputs += item.values.size();
    num_outputs += 1 + static_cast<size_t>(item.num_copies);
  }
  inputs.reserve(num_inputs);  // spans into them must stay valid
  outputs.reserve(num_outputs);
  reductions.reserve(items.size());
  for (BufferSum& item : items) {
    const auto dtype = dtype_of(item.values[0].scalar_type());
    if (!dtype || !is_to_be_summed(item) || !are_dense_alike(item)) {
      sum_by_ops(item);
      continue;
    }
    if (CallRecorder::current()) {
      record_sum(item, parallel);
      continue;
    }
    make_results(item);
    const size_t first = inputs.size(), first_output = outputs.size();
    outputs.push_back(item.result.mutable_data_ptr());
    for (const Tensor& copy : item.copies) outputs.push_back(copy.mutable_data_ptr());
    for (const Tensor& value : item.values) inputs.push_back(value.const_data_ptr());
    reductions.push_back({.dtype = *dtype,
                          .inputs = {inputs.data() + first, item.values.size()},
                          .outputs = {outputs.data() + first_output, outputs.size() - first_output},
                          .count = item.result.numel(),
                          .divisor = item.divisor});
  }
  if (reductions.empty()) return;
  HostReduction reduction(reductions);
  if (parallel && reduction.num_tiles() >= kMinTilesOfSum)
    parallel([&] { reduction.run(); });
  else
    reduction.run();
}

}  // namespace tutti
