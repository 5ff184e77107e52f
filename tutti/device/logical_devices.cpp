#include "tutti/device/logical_devices.h"

#include <algorithm>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"

namespace tutti {
namespace {

constexpr int kMaxLogicalDevices = 1024;  // of one type

// The one place that knows which devices there are.
struct LogicalDevices {
  std::mutex mutex;
  const int num_gpus = tutti::num_gpus();
  // The physical index of each logical device; guarded by mutex, only ever appended to.
  std::vector<int> cpus = {0};
  std::vector<int> gpus;

  LogicalDevices() {
    for (int gpu = 0; gpu < num_gpus; ++gpu) gpus.push_back(gpu);
  }

  std::vector<int>* of(DeviceType type) {
    switch (type) {
      case DeviceType::cpu: return &cpus;
      case DeviceType::gpu: return &gpus;
      case DeviceType::tpu: return nullptr;
    }
    return nullptr;
  }

  int num_physical(DeviceType type) const {
    return type == DeviceType::cpu ? 1 : type == DeviceType::gpu ? num_gpus : 0;
  }
};

LogicalDevices& devices() {
  static LogicalDevices instance;
  return instance;
}

bool is_local(const Device& device) {
  return (device.job.empty() || device.job == "localhost") && device.replica.value_or(0) == 0 &&
         device.task.value_or(0) == 0;
}

template <class Count>
std::vector<Device> list(std::optional<DeviceType> only, Count count) {
  std::vector<Device> result;
  for (const DeviceType type : {DeviceType::cpu, DeviceType::gpu})
    for (int index = 0; (!only || *only == type) && index < count(type); ++index) result.emplace_back(type, index);
  return result;
}

// The logical devices of one physical device, after as many were added as `num_wanted` needs.
std::vector<Device> split(const Device& physical, size_t num_wanted) {
  const std::lock_guard lock(devices().mutex);
  std::vector<int>& parts = *devices().of(physical.type);
  const auto have = static_cast<size_t>(std::ranges::count(parts, physical.index));
  if (num_wanted == 0 || parts.size() + num_wanted > kMaxLogicalDevices + have)
    throw Error(ErrorCode::invalid_argument,
                str("configure_logical_devices: ", num_wanted, " logical devices of ", physical,
                    "; there must be at least 1, and at most ", kMaxLogicalDevices, " of a type"));
  if (num_wanted > have) parts.resize(parts.size() + num_wanted - have, physical.index);
  std::vector<Device> result;
  for (size_t index = 0; result.size() < num_wanted; ++index)
    if (parts[index] == physical.index) result.emplace_back(physical.type, static_cast<int>(index));
  return result;
}

}  // namespace

std::vector<Device> list_physical_devices(std::optional<DeviceType> type) {
  return list(type, [](DeviceType each) { return devices().num_physical(each); });
}

std::vector<Device> list_logical_devices(std::optional<DeviceType> type) {
  const std::lock_guard lock(devices().mutex);
  return list(type, [](DeviceType each) { return static_cast<int>(devices().of(each)->size()); });
}

std::vector<Device> configure_logical_cpus(int n) {
  if (n < 1 || n > kMaxLogicalDevices)
    throw Error(ErrorCode::invalid_argument,
                str("configure_logical_cpus: n is ", n, "; it must be from 1 to ", kMaxLogicalDevices));
  return split(Device(DeviceType::cpu, 0), static_cast<size_t>(n));
}

std::vector<Device> configure_logical_devices(const Device& physical,
                                              const std::vector<LogicalDeviceOptions>& options) {
  if (!is_local(physical) || physical.index < 0 || physical.index >= devices().num_physical(physical.type))
    throw Error(ErrorCode::not_found, str("configure_logical_devices: no physical device ", physical,
                                          "; this process has ", str_list(list_physical_devices())));
  for (const LogicalDeviceOptions& option : options)
    if (option.memory_limit_bytes)
      throw Error(
          ErrorCode::unimplemented,
          str("configure_logical_devices: a memory limit of ", *option.memory_limit_bytes, " bytes on a part of ",
              physical, "; LibTorch's allocators know physical devices alone, so leave memory_limit_bytes out"));
  return split(physical, options.size());
}

Device require_logical_device(const Device& device) {
  Device local(device.type, device.index);
  {
    const std::lock_guard lock(devices().mutex);
    const std::vector<int>* parts = devices().of(device.type);
    const bool exists = parts && device.index >= 0 && static_cast<size_t>(device.index) < parts->size();
    if (is_local(device) && exists) return local;
  }
  throw Error(ErrorCode::not_found,
              str("no logical device ", device, "; this process has ", str_list(list_logical_devices()),
                  "; configure_logical_cpus(n) or configure_logical_devices makes more"));
}

int physical_index(const Device& device) {
  const Device local = require_logical_device(device);
  const std::lock_guard lock(devices().mutex);
  return (*devices().of(local.type))[static_cast<size_t>(local.index)];
}

bool share_memory(const Device& a, const Device& b) {
  const int physical_a = physical_index(a);
  return physical_a == physical_index(b) && a.type == b.type;
}

}  // namespace tutti
