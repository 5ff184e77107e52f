#include "tutti/distribute/process_all_reduce.h"

#include <ATen/ops/cat.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/reduce.h"
#include "tutti/tensor/view.h"

namespace tutti {

ProcessAllReduce::ProcessAllReduce(std::shared_ptr<Processes> processes, int64_t bytes_per_pack, ParallelCall parallel)
    : processes_(std::move(processes)), bytes_per_pack_(bytes_per_pack), parallel_(std::move(parallel)) {}

std::vector<std::vector<Tensor>> ProcessAllReduce::batch_reduce(ReduceOp op,
                                                                std::vector<ReduceRequest> requests) const {
  const GlobalViewGuard global_view;
  std::vector<BufferSum> sums;
  std::string name = "reduce of";  // so that values of another shape elsewhere are noticed
  for (auto& [values, destinations] : requests) {
    require_reducible(values.values());
    if (op == ReduceOp::mean) values = PerReplica(for_mean(std::move(values).values()));
    name += str(' ', values[0].toString(), ' ', str_list(values[0].sizes()));
    const auto terms = static_cast<double>(values.size() * static_cast<size_t>(processes_->size()));
    sums.push_back({.values = {values.begin(), values.end()}, .divisor = op == ReduceOp::mean ? terms : 1});
  }
  SumPacks packs;
  sum_over_processes(processes_, sums, bytes_per_pack_, name.c_str(), parallel_, packs);
  std::vector<std::vector<Tensor>> results;
  for (size_t i = 0; i < requests.size(); ++i) results.push_back(hand_out(sums[i].result, requests[i].destinations));
  return results;
}

std::vector<Tensor> ProcessAllReduce::gather(const PerReplica<Tensor>& values, const Destinations& destinations,
                                             int64_t axis) const {
  const GlobalViewGuard global_view;
  const std::vector<Tensor> own = bring_to(values, c10::Device(at::kCPU));
  std::vector<Tensor> all;
  for (const auto& parts : gather_tensors(*processes_, own, "gather"))
    all.insert(all.end(), parts.begin(), parts.end());
  require_gatherable(all, axis);
  return hand_out(at::cat(all, axis), destinations);
}

std::vector<std::vector<Tensor>> ProcessAllReduce::batch_reduce_implementation(ReduceOp,
                                                                               std::span<const ReduceRequest>) const {
  throw Error(ErrorCode::internal, "ProcessAllReduce: batch_reduce does it all");
}

}  // namespace tutti
