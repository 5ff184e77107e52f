#include "tutti/distribute/default_cross_device_ops.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "tutti/cluster/environment.h"
#include "tutti/collectives/nccl/library.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/nccl_all_reduce.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

bool are_gpus(const std::vector<Device>& devices) {
  return std::ranges::all_of(devices, [](const Device& device) { return device.type == DeviceType::gpu; });
}

size_t num_cards(const std::vector<Device>& devices) {
  std::set<int> cards;
  for (const Device& device : devices) cards.insert(physical_index(device));
  return cards.size();
}

SharedCrossDeviceOps nccl_if_there(const char* strategy, const cluster::Environment& environment) {
  try {
    return NcclAllReduce({}, environment);
  } catch (const Error& error) {
    if (environment.has(nccl::kLibraryVariable)) throw;
    static std::atomic<bool> warned = false;
    if (!warned.exchange(true))
      warn(str(strategy, ": the sums of several GPUs are taken on one of them, to which all values are copied, as ",
               "NcclAllReduce cannot be used: ", error.what()));
    return {};
  }
}

}  // namespace

SharedCrossDeviceOps cross_device_ops_of(const char* strategy, const Mesh& mesh, SharedCrossDeviceOps given) {
  const auto& devices = mesh.devices();
  const bool are_several = are_gpus(devices) && num_cards(devices) > 1;
  if (given.get()) {
    if (dynamic_cast<const NcclAllReduce*>(given.get()) && devices.size() > 1 && !are_several)
      warn(str(strategy, ": NcclAllReduce sums between different GPUs, and ", str_list(devices),
               " are not; sums are taken as without it"));
    return given;
  }
  if (!are_several || mesh.options().home) return {};
  const auto environment = cluster::Environment::of_process();
  if (!torch_device(devices[0]).is_cuda() && !environment.has(nccl::kLibraryVariable)) return {};
  return nccl_if_there(strategy, environment);
}

}  // namespace tutti
