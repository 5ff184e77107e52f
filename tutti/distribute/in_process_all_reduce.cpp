#include "tutti/distribute/in_process_all_reduce.h"

#include <algorithm>

#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

BufferSum sum_of(ReduceOp op, const ReduceRequest& request) {
  const auto& [values, destinations] = request;
  const auto in_host_memory =
      std::ranges::count_if(destinations.devices(), [](const Device& device) { return torch_device(device).is_cpu(); });
  return {.values = {values.begin(), values.end()},
          .divisor = op == ReduceOp::mean ? static_cast<double>(values.size()) : 1,
          .num_copies = values[0].is_cpu() && in_host_memory > 0 ? static_cast<int>(in_host_memory - 1) : 0};
}

// The result and its copies, one for each destination in host memory; copies to the others.
std::vector<Tensor> deal_out(const BufferSum& sum, const Destinations& destinations) {
  if (!sum.result.is_cpu()) return hand_out(sum.result, destinations);
  std::vector<Tensor> results;
  size_t next = 0;
  for (const Device& name : destinations.devices()) {
    const c10::Device device = torch_device(name);
    if (!device.is_cpu())
      results.push_back(sum.result.to(device));
    else
      results.push_back(next == 0 ? sum.result : sum.copies[next - 1]), ++next;
  }
  return results;
}

}  // namespace

std::vector<std::vector<Tensor>> InProcessAllReduce::batch_reduce_implementation(
    ReduceOp op, std::span<const ReduceRequest> requests) const {
  std::vector<BufferSum> sums;
  for (const ReduceRequest& request : requests) sums.push_back(sum_of(op, request));
  sum_buffers(sums, parallel_);
  std::vector<std::vector<Tensor>> results;
  for (size_t i = 0; i < requests.size(); ++i) results.push_back(deal_out(sums[i], requests[i].destinations));
  return results;
}

}  // namespace tutti
