#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "tutti/distribute/shared_cross_device_ops.h"
#include "tutti/distribute/strategy.h"
#include "tutti/mesh/mesh.h"

namespace tutti {

// A list of devices, or the wish for all there are.
class DeviceList {
 public:
  // Every GPU; the CPU where there is none.
  static DeviceList available();

  DeviceList() = default;  // an empty list, which no strategy takes
  DeviceList(std::vector<Device> devices) : devices_(std::move(devices)) {}
  DeviceList(std::initializer_list<Device> devices) : devices_(devices) {}

  const std::vector<Device>& devices() const { return devices_; }

 private:
  std::vector<Device> devices_;
};

struct MirroredStrategyOptions {
  DeviceList devices = DeviceList::available();
  MeshOptions mesh = {};
  // How values are reduced, broadcast and gathered; default: in this process, in one pass over memory.
  SharedCrossDeviceOps cross_device_ops = {};
};

// Synchronous training on the devices of one process: each is a replica, variables are mirrored, and the gradients that
// the replicas compute on their parts of a batch are reduced before they are used. TF: tf.distribute.MirroredStrategy.
class MirroredStrategy final : public Strategy {
 public:
  // Throws: invalid_argument for an empty list or a device listed twice; not_found for a device that does not exist.
  explicit MirroredStrategy(MirroredStrategyOptions options = {});
  ~MirroredStrategy() override;

  int64_t num_replicas_in_sync() const override;
  const std::vector<Device>& devices() const override;
  std::unique_ptr<StrategyScope> scope(BuildOptions options = {}) override;
  // The 1-D mesh "replica" that the variables lie on.
  const Mesh& mesh() const;
  const CrossDeviceOps& cross_device_ops() const override;
  void reduce_gradients(std::span<BufferSum> items) const override;

 private:
  void run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) override;
  data::Placement placement() const override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
