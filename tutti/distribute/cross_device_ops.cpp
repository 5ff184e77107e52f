#include "tutti/distribute/cross_device_ops.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "tutti/distribute/reduce.h"
#include "tutti/tensor/torch_device.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

void check_results(std::span<const ReduceRequest> requests, const std::vector<std::vector<Tensor>>& results) {
  const auto refuse = [](const auto&... what) {
    throw Error(ErrorCode::failed_precondition, str("CrossDeviceOps: batch_reduce_implementation returned ", what...));
  };
  if (results.size() != requests.size()) refuse(results.size(), " results for ", requests.size(), " requests");
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto& [values, destinations] = requests[i];
    if (results[i].size() != destinations.size())
      refuse(results[i].size(), " tensors for the ", destinations.size(), " destinations of request ", i);
    for (const Tensor& result : results[i])
      if (!result.defined() || result.sizes() != values[0].sizes())
        refuse("a tensor of another shape than ", str_list(values[0].sizes()), " for request ", i);
  }
}

}  // namespace

std::vector<std::vector<Tensor>> CrossDeviceOps::batch_reduce(ReduceOp op, std::vector<ReduceRequest> requests) const {
  const GlobalViewGuard global_view;
  std::vector<std::vector<Tensor>> results(requests.size());
  std::vector<ReduceRequest> dense;
  std::vector<size_t> places;  // of the dense requests
  for (size_t i = 0; i < requests.size(); ++i) {
    auto& [values, destinations] = requests[i];
    if (values.size() == 1) {
      results[i] = broadcast(values[0], destinations);
    } else if (require_reducible(values.values()); values[0].is_sparse()) {
      results[i] = hand_out(concatenate_sparse(op, values.values()), destinations);
    } else {
      if (op == ReduceOp::mean) values = PerReplica(for_mean(std::move(values).values()));
      dense.push_back(std::move(requests[i]));
      places.push_back(i);
    }
  }
  if (dense.empty()) return results;
  auto reduced = batch_reduce_implementation(op, dense);
  check_results(dense, reduced);
  for (size_t i = 0; i < dense.size(); ++i) results[places[i]] = std::move(reduced[i]);
  return results;
}

std::vector<Tensor> CrossDeviceOps::reduce(ReduceOp op, PerReplica<Tensor> values, Destinations destinations) const {
  std::vector<ReduceRequest> request;
  request.push_back({std::move(values), std::move(destinations)});
  return batch_reduce(op, std::move(request))[0];
}

std::vector<Tensor> CrossDeviceOps::broadcast(const Tensor& value, const Destinations& destinations) const {
  const GlobalViewGuard global_view;
  if (destinations.size() == 1) return {value.to(torch_device(destinations.devices()[0]))};
  return broadcast_implementation(value, destinations);
}

std::vector<Tensor> CrossDeviceOps::gather(const PerReplica<Tensor>& values, const Destinations& destinations,
                                           int64_t axis) const {
  const GlobalViewGuard global_view;
  std::vector<Tensor> dense;
  for (const Tensor& value : values) dense.push_back(value.is_sparse() ? value.to_dense() : value);
  require_gatherable(dense, axis);
  if (dense.size() == 1) return broadcast(dense[0], destinations);
  return gather_implementation(PerReplica(std::move(dense)), destinations, axis);
}

std::vector<Tensor> CrossDeviceOps::broadcast_implementation(const Tensor& value,
                                                             const Destinations& destinations) const {
  std::vector<Tensor> copies;
  for (const Device& device : destinations.devices())
    copies.push_back(value.to(torch_device(device), value.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  return copies;
}

std::vector<Tensor> CrossDeviceOps::gather_implementation(const PerReplica<Tensor>& values,
                                                          const Destinations& destinations, int64_t axis) const {
  return hand_out(at::cat(bring_to(values, torch_device(destinations.devices()[0])), axis), destinations);
}

void require_one_kind(const char* call, std::span<const ReduceRequest> requests) {
  const auto is_int = [](const ReduceRequest& request) { return request.values[0].scalar_type() == at::kInt; };
  if (const auto num_ints = std::ranges::count_if(requests, is_int);
      num_ints > 0 && num_ints < static_cast<std::ptrdiff_t>(requests.size()))
    throw Error(ErrorCode::invalid_argument,
                str(call, ": int32 tensors and those of other dtypes come in one call; make one call for each kind"));
}

std::vector<Tensor> hand_out(const Tensor& value, const Destinations& destinations) {
  std::vector<Tensor> results;
  bool given = false;
  for (const Device& name : destinations.devices()) {
    const c10::Device device = torch_device(name);
    results.push_back(value.to(device, value.scalar_type(), /*non_blocking=*/false, /*copy=*/given));
    given |= device == value.device();
  }
  return results;
}

std::vector<Tensor> bring_to(const PerReplica<Tensor>& values, c10::Device device) {
  std::vector<Tensor> there;
  for (const Tensor& value : values) there.push_back(value.to(device));
  return there;
}

}  // namespace tutti
