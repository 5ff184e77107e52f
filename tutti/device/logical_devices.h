#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/device/device.h"

namespace tutti {

// The devices of this process. A physical device is the host's processor, CPU:0, or a GPU that LibTorch sees; a logical
// device is a part of one, and is what strategies and meshes name. At first there is one logical device for each
// physical one, with its index. More can be made at any time and get the next free indices; none is ever removed or
// renamed. Threads: every function here may be called from any thread.

struct LogicalDeviceOptions {
  // Bytes; only the absence of a limit is supported, because LibTorch's allocators know physical devices alone.
  std::optional<int64_t> memory_limit_bytes = {};
};

// TF: tf.config.list_physical_devices, tf.config.list_logical_devices. CPUs first, in index order.
std::vector<Device> list_physical_devices(std::optional<DeviceType> type = {});
std::vector<Device> list_logical_devices(std::optional<DeviceType> type = {});

// Returns CPU:0 … CPU:n-1, making the ones that do not exist yet.
// Throws: invalid_argument unless 1 <= n <= 1024.
std::vector<Device> configure_logical_cpus(int n);

// Splits a physical device into options.size() logical ones, keeping those that it has, and returns the first
// options.size() of them, in index order.
// Throws: not_found (no such physical device), invalid_argument (none, or more than 1024 of a type),
// unimplemented (a memory limit).
// TF: tf.config.set_logical_device_configuration, which must be called before the first use.
std::vector<Device> configure_logical_devices(const Device& physical, const std::vector<LogicalDeviceOptions>& options);

// Returns `device` as this process names it ("/job:localhost/replica:0/task:0/device:CPU:0" is "/device:CPU:0").
// Throws: not_found, naming the device, what there is, and how to make more.
Device require_logical_device(const Device& device);

// The index of the physical device that a logical one is part of. Throws: not_found.
int physical_index(const Device& device);

// Whether both lie in one memory, so that one buffer can serve both. Throws: not_found.
bool share_memory(const Device& a, const Device& b);

}  // namespace tutti
