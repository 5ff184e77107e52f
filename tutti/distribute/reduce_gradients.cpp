#include "tutti/distribute/reduce_gradients.h"

#include <ATen/ops/zeros_like.h>

#include <iterator>

#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

// One on each device: those that replicas left are in the order of the devices.
PerReplica<Tensor> with_missing_as_zero(const BufferSum& item, const std::vector<Device>& devices) {
  std::vector<Tensor> values;
  size_t next = 0;  // of those that there are
  for (size_t i = 0; i < devices.size(); ++i) {
    const c10::Device device = torch_device(devices[i]);
    const size_t left = item.values.size() - next;
    if (left == devices.size() - i || (left > 0 && item.values[next].device() == device))
      values.push_back(item.values[next++]);
    else
      values.push_back(at::zeros_like(item.values[0]).to(device));
  }
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
  auto results = ops.batch_reduce(op, std::move(requests));
  for (size_t i = 0; i < pending.size(); ++i) {
    pending[i]->result = std::move(results[i][0]);
    pending[i]->copies.assign(std::make_move_iterator(results[i].begin() + 1),
                              std::make_move_iterator(results[i].end()));
  }
}

}  // namespace tutti
