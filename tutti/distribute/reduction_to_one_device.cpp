#include "tutti/distribute/reduction_to_one_device.h"

#include "tutti/device/logical_devices.h"
#include "tutti/distribute/reduce.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {

ReductionToOneDevice::ReductionToOneDevice(ReductionToOneDeviceOptions options) : options_(std::move(options)) {
  if (options_.reduce_to_device) require_logical_device(*options_.reduce_to_device);
}

std::vector<std::vector<Tensor>> ReductionToOneDevice::batch_reduce_implementation(
    ReduceOp op, std::span<const ReduceRequest> requests) const {
  std::vector<std::vector<Tensor>> results;
  for (const auto& [values, destinations] : requests) {
    const Device device = options_.reduce_to_device.value_or(destinations.devices()[0]);
    const std::vector<Tensor> there = bring_to(values, torch_device(device));
    Tensor sum = options_.accumulation_fn ? options_.accumulation_fn(there) : reduce_tensors(ReduceOp::sum, there);
    if (op == ReduceOp::mean) sum = sum.div(static_cast<double>(values.size()));
    results.push_back(hand_out(sum, destinations));
  }
  return results;
}

}  // namespace tutti
