#include "tutti/tpu/tpu_system.h"

#include <algorithm>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/pjrt/client.h"
#include "tutti/pjrt/find_plugin.h"
#include "tutti/pjrt/tpu_hardware.h"
#include "tutti/tpu/planned_tpu.h"

namespace tutti {

void connect_to_cluster(const cluster::ClusterResolver& resolver) {
  if (!resolver.cluster_spec().is_empty())
    throw Error(ErrorCode::unimplemented, str("the TPU at ", resolver.master(),
                                              " is another host's, and programs are not sent there: start the program "
                                              "on the TPU's own host, with TPUClusterResolver({.tpu = \"local\"})"));
}

namespace tpu {
namespace {

struct System {
  std::mutex mutex;
  std::shared_ptr<pjrt::Client> client;
  std::shared_ptr<PlannedTpu> planned;  // instead
};
System& system() {
  static System& one = *new System;
  return one;
}

// The plugin's file. What has no TPU is told before a library of hundreds of megabytes is loaded.
std::filesystem::path find_tpu_plugin(const TpuSystemOptions& options) {
  const pjrt::PluginSearch search = pjrt::find_plugin(options.environment, options.root);
  const bool any_device = options.environment.has("TUTTI_PJRT_PLUGIN");
  const std::filesystem::path bus = options.root / "sys/bus/pci/devices";
  const bool has_chips = any_device || !pjrt::find_tpu_chips(bus).empty();
  if (search.found && has_chips) return *search.found;
  std::string looked;
  for (const std::string& place : search.looked_at) looked += str(looked.empty() ? "" : ", ", place);
  throw Error(
      ErrorCode::not_found,
      str("TPUs not found: ", has_chips ? "" : str("no device in ", bus.string(), " is a TPU (Google's, 0x1ae0); "),
          search.found ? str("libtpu is at ", search.found->string())
                       : str("no libtpu.so was found (looked at ", looked, "; `pip install libtpu` brings it)"),
          ". Run on a TPU's host, or set TUTTI_PJRT_PLUGIN to the plugin of another device"));
}

// Where a device is on the chips' network; devices that do not say so are chips in a row.
Coordinates coordinates_of(const pjrt::DeviceFacts& device, int number) {
  const auto coords = device.attributes.find("coords");
  const auto* xyz = coords == device.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&coords->second);
  if (!xyz || xyz->size() != 3) return {number, 0, 0, 0};
  const auto core = device.attributes.find("core_on_chip");
  const auto* on_chip = core == device.attributes.end() ? nullptr : std::get_if<int64_t>(&core->second);
  return {static_cast<int>((*xyz)[0]), static_cast<int>((*xyz)[1]), static_cast<int>((*xyz)[2]),
          on_chip ? static_cast<int>(*on_chip) : 0};
}

Topology topology_of(const std::vector<pjrt::DeviceFacts>& facts) {
  std::vector<Coordinates> devices;
  Coordinates mesh{1, 1, 1, 1};
  for (const pjrt::DeviceFacts& device : facts) {
    devices.push_back(coordinates_of(device, static_cast<int>(devices.size())));
    for (size_t axis = 0; axis < mesh.size(); ++axis) mesh[axis] = std::max(mesh[axis], devices.back()[axis] + 1);
  }
  return Topology(mesh, {devices});
}

}  // namespace

Topology initialize_tpu_system(const cluster::ClusterResolver& resolver, const TpuSystemOptions& options) {
  connect_to_cluster(resolver);
  System& one = system();
  if (options.environment.has(kPlanVariable)) {
    auto planned =
        std::make_shared<PlannedTpu>(options.environment.text(kPlanVariable), options.environment, options.root);
    const std::lock_guard lock(one.mutex);
    one.client.reset();
    one.planned = std::move(planned);
    return topology_of(one.planned->devices());
  }
  const std::filesystem::path path = find_tpu_plugin(options);
  const std::lock_guard lock(one.mutex);
  if (one.client)
    warn(str("the TPU system ", path.string(),
             " has already been initialized. Initializing it again can cause variables "
             "that were created on the TPU to be lost"));
  one.client.reset();
  one.planned.reset();
  auto client = pjrt::Client::create(pjrt::Plugin::load(path), options.client_options);
  Topology topology = topology_of(client->devices());
  one.client = std::move(client);
  return topology;
}

void shutdown_tpu_system() {
  System& one = system();
  const std::lock_guard lock(one.mutex);
  if (!one.client && !one.planned) warn("the TPU system is shut down and was not initialized");
  one.client.reset();
  one.planned.reset();
}

std::shared_ptr<pjrt::Client> tpu_client() {
  System& one = system();
  const std::lock_guard lock(one.mutex);
  if (!one.client)
    throw Error(ErrorCode::failed_precondition,
                "the TPU system is not initialized: call tpu::initialize_tpu_system(resolver) first");
  return one.client;
}

std::shared_ptr<PlannedTpu> planned_tpu() {
  System& one = system();
  const std::lock_guard lock(one.mutex);
  return one.planned;
}

}  // namespace tpu
}  // namespace tutti
