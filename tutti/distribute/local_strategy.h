#pragma once

#include <memory>
#include <vector>

#include "tutti/device/device_list.h"
#include "tutti/distribute/shared_cross_device_ops.h"
#include "tutti/distribute/strategy.h"
#include "tutti/mesh/mesh.h"

namespace tutti {

class NewVariables;

// The processes whose replicas train together.
struct JoinedProcesses {
  std::shared_ptr<Processes> processes = {};  // null: one alone
  int64_t bytes_per_pack = 0;
  std::shared_ptr<NewVariables> new_variables = {};  // without `processes`: who is told of them
};

// What the strategies have in common whose variables lie in this process: a replica on each of some devices, and
// variables that lie on the mesh of them. A strategy of its own says which devices, and where the values are.
class LocalStrategy : public Strategy {
 public:
  ~LocalStrategy() override;

  int64_t num_replicas_in_sync() const final;
  const std::shared_ptr<Processes>& processes() const final;
  const std::vector<Device>& devices() const final;
  std::string_view name() const final;
  std::unique_ptr<StrategyScope> scope(BuildOptions options = {},
                                       std::source_location location = std::source_location::current()) final;
  // The 1-D mesh "replica" that the variables lie on.
  const Mesh& mesh() const;
  const CrossDeviceOps& cross_device_ops() const final;
  void reduce_gradients(std::span<BufferSum> items) const final;
  void give_gradients() final;
  // Of all variables, here alone: processes that go on from a step before have none of the one that failed.
  void drop_gradients();

 protected:
  // Throws: invalid_argument for an empty list or a device listed twice; not_found for a device that does not exist.
  LocalStrategy(const char* name, const DeviceList& devices, const MeshOptions& options, SharedCrossDeviceOps ops = {});
  LocalStrategy(const char* name, const DeviceList& devices, const MeshOptions& options, JoinedProcesses joined);

  void run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) override;

 private:
  data::Placer placer() const final;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
