#pragma once

#include <string>
#include <vector>

#include "tutti/cluster/tpu_topology.h"

namespace tutti::tpu {

// In which order replicas and the cores of a replica follow each other. TF: tf.tpu.experimental.DeviceOrderMode.
enum class DeviceOrderMode {
  automatic,  // rings where that is possible
  ring,       // neighbours in the order are neighbours on the chips' network, and so are the last and the first
  mesh,       // along the axes
};

struct DeviceAssignmentOptions {
  Coordinates computation_shape = {1, 1, 1, 1};   // the block of cores of one replica
  Coordinates computation_stride = {1, 1, 1, 1};  // from one of its cores to the next
  int num_replicas = 1;
  DeviceOrderMode device_order_mode = DeviceOrderMode::automatic;
};

// Which core each logical core of each replica is. A value. TF: tf.tpu.experimental.DeviceAssignment.
class DeviceAssignment {
 public:
  using CoreAssignment = std::vector<std::vector<Coordinates>>;  // [replica][logical core]

  // Throws: invalid_argument for replicas with different numbers of cores, and what the topology throws for cores that
  // it does not have.
  DeviceAssignment(Topology topology, CoreAssignment core_assignment);
  // Packs replicas into the mesh. Where cores are missing, replicas take the others in the order of tasks.
  // Throws: invalid_argument for sizes below 1, for replicas that do not fit, and for rings that cannot be.
  static DeviceAssignment build(const Topology& topology, const DeviceAssignmentOptions& options = {});

  const Topology& topology() const { return topology_; }
  const CoreAssignment& core_assignment() const { return core_assignment_; }
  int num_replicas() const { return static_cast<int>(core_assignment_.size()); }
  int num_cores_per_replica() const;

  // The following throw: out_of_range for a replica or a logical core that is not there.
  const Coordinates& coordinates(int replica, int logical_core) const;
  int tpu_ordinal(int replica = 0, int logical_core = 0) const;
  std::string tpu_device(int replica = 0, int logical_core = 0, const std::string& job = {}) const;
  std::string host_device(int replica = 0, int logical_core = 0, const std::string& job = {}) const;
  // The replicas whose logical core is driven by a task, in order. Throws: invalid_argument if there are none.
  std::vector<int> lookup_replicas(int task, int logical_core) const;

  bool operator==(const DeviceAssignment&) const = default;

 private:
  Topology topology_;
  CoreAssignment core_assignment_;
};

}  // namespace tutti::tpu
