#include "tutti/distribute/reduce_gradients.h"

#include <ATen/ops/zeros_like.h>

#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

PerReplica<Tensor> with_missing_as_zero(const BufferSum& item, const std::vector<Device>& devices) {
  std::vector<Tensor> values(item.values.begin(), item.values.end());
  while (values.size() < devices.size())
    values.push_back(at::zeros_like(values[0]).to(torch_device(devices[values.size()])));
  return PerReplica(std::move(values));
}

}  // namespace

void reduce_gradients(const CrossDeviceOps& ops, const Destinations& devices, std::span<BufferSum> items) {
  ReduceOp op = ReduceOp::sum;
  std::vector<ReduceRequest> requests;
  std::vector<BufferSum*> pending;
  for (BufferSum& item : items) {
    item.result = item.values[0];
    if (item.divisor != 1) op = ReduceOp::mean;
    if (item.divisor == 1 && item.values.size() == 1) continue;  // nothing to add
    requests.push_back({with_missing_as_zero(item, devices.devices()), devices});
    pending.push_back(&item);
  }
  const auto results = ops.batch_reduce(op, std::move(requests));
  for (size_t i = 0; i < pending.size(); ++i) pending[i]->result = results[i][0];
}

}  // namespace tutti
