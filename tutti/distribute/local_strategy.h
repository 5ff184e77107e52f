#pragma once

#include <memory>
#include <vector>

#include "tutti/device/device_list.h"
#include "tutti/distribute/shared_cross_device_ops.h"
#include "tutti/distribute/strategy.h"
#include "tutti/mesh/mesh.h"

namespace tutti {

// What the strategies of one process have in common: a replica on each of some devices, and variables that lie on the
// mesh of them. A strategy of its own says which devices, and where the values are.
class LocalStrategy : public Strategy {
 public:
  ~LocalStrategy() override;

  int64_t num_replicas_in_sync() const final;
  const std::vector<Device>& devices() const final;
  std::string_view name() const final;
  std::unique_ptr<StrategyScope> scope(BuildOptions options = {},
                                       std::source_location location = std::source_location::current()) final;
  // The 1-D mesh "replica" that the variables lie on.
  const Mesh& mesh() const;
  const CrossDeviceOps& cross_device_ops() const final;
  void reduce_gradients(std::span<BufferSum> items) const final;

 protected:
  // Throws: invalid_argument for an empty list or a device listed twice; not_found for a device that does not exist.
  LocalStrategy(const char* name, const DeviceList& devices, MeshOptions options, SharedCrossDeviceOps ops = {});

 private:
  void run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) final;
  data::Placer placer() const final;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
