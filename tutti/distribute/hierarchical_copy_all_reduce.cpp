#include "tutti/distribute/hierarchical_copy_all_reduce.h"

#include <algorithm>
#include <map>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/reduce.h"
#include "tutti/distribute/reduction_to_one_device.h"
#include "tutti/distribute/tensor_packs.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

// Whether each value lies where its result is wanted.
bool is_all_reduce(const ReduceRequest& request) {
  const auto& devices = request.destinations.devices();
  return request.values.size() == devices.size() &&
         std::ranges::equal(request.values, devices, [](const Tensor& value, const Device& device) {
           return value.device() == torch_device(device);
         });
}

// TF: cross_device_utils.aggregate_gradients_using_hierarchical_copy, of the index-th tensor.
std::vector<Tensor> reduce_halves(ReduceOp op, const std::vector<Tensor>& values, size_t index) {
  const size_t half = values.size() / 2;
  const size_t main = index % values.size();
  const size_t partner = main < half ? main + half : (main - half) % half;
  const auto sum_half_of = [&](size_t member) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(half);
    const auto group = member < half ? std::vector(values.begin(), middle) : std::vector(middle, values.end());
    return reduce_tensors(ReduceOp::sum, bring_to(PerReplica(group), values[member].device()));
  };
  const Tensor partner_sum = sum_half_of(partner).to(values[main].device());
  Tensor total = reduce_tensors(ReduceOp::sum, {sum_half_of(main), partner_sum});
  if (op == ReduceOp::mean) total = total.div(static_cast<double>(values.size()));
  const Tensor at_partner = total.to(values[partner].device());
  std::vector<Tensor> results;
  for (size_t j = 0; j < values.size(); ++j) {
    const Tensor& source = (j < half) == (main < half) ? total : at_partner;
    const bool own = j == main;
    results.push_back(source.to(values[j].device(), source.scalar_type(), /*non_blocking=*/false, /*copy=*/!own));
  }
  return results;
}

// Requests of one dtype and number of values are packed together.
using PackKey = std::pair<at::ScalarType, size_t>;

}  // namespace

HierarchicalCopyAllReduce::HierarchicalCopyAllReduce(HierarchicalCopyAllReduceOptions options) : options_(options) {
  if (options_.num_packs < 0)
    throw Error(ErrorCode::invalid_argument, str("HierarchicalCopyAllReduce: num_packs is ", options_.num_packs,
                                                 "; it must be 0, for no packing, or the number of packs"));
}

std::vector<std::vector<Tensor>> HierarchicalCopyAllReduce::batch_reduce_implementation(
    ReduceOp op, std::span<const ReduceRequest> requests) const {
  std::vector<std::vector<Tensor>> results(requests.size());
  std::map<PackKey, std::vector<size_t>> packed;
  size_t index = 0;  // of the next tensor or pack
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto& [values, destinations] = requests[i];
    if (!is_all_reduce(requests[i]))
      results[i] = ReductionToOneDevice().reduce(op, values, destinations);
    else if (options_.num_packs == 0)
      results[i] = reduce_halves(op, values.values(), index++);
    else
      packed[{values[0].scalar_type(), values.size()}].push_back(i);
  }
  for (const auto& [key, members] : packed) {
    std::vector<const ReduceRequest*> tensors;
    for (const size_t i : members) tensors.push_back(&requests[i]);
    const TensorPacks packs(tensors, options_.num_packs);
    std::vector<std::vector<Tensor>> reduced(key.second);  // by destination
    for (const auto& pack : packs.packs()) {
      const auto halves = reduce_halves(op, pack, index++);
      for (size_t j = 0; j < halves.size(); ++j) reduced[j].push_back(halves[j]);
    }
    for (size_t t = 0; t < members.size(); ++t)
      for (const auto& destination : reduced) results[members[t]].push_back(packs.unpack(destination, t));
  }
  return results;
}

}  // namespace tutti
