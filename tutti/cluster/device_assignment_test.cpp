#include "tutti/cluster/device_assignment.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::tpu {
namespace {

// Hosts of two chips along x, each with so many cores.
Topology topology_of(const Coordinates& mesh) {
  std::vector<std::vector<Coordinates>> tasks;
  for (int z = 0; z < mesh[2]; ++z)
    for (int y = 0; y < mesh[1]; ++y) {
      tasks.emplace_back();
      for (int x = 0; x < mesh[0]; ++x)
        for (int core = 0; core < mesh[3]; ++core) tasks.back().push_back({x, y, z, core});
    }
  return Topology(mesh, tasks);
}

TEST(TpuTopology, NamesTheDeviceOfACore) {
  const Topology topology = topology_of({2, 2, 1, 2});
  EXPECT_EQ(topology.tpu_device_name_at_coordinates({1, 1, 0, 0}, "worker"), "/job:worker/task:1/device:TPU:2");
  EXPECT_EQ(topology.cpu_device_name_at_coordinates({1, 1, 0, 0}), "/task:1/device:CPU:0");
  EXPECT_EQ(error_of([&] {
              topology.task_ordinal_at_coordinates({2, 0, 0, 0});
            }),
            "out_of_range: the TPU core at [2, 0, 0, 0] is outside of the mesh of shape [2, 2, 1, 2]");
}

TEST(TpuTopology, KnowsWhichCoresNobodyHas) {
  const Topology topology({2, 1, 1, 2}, {{{0, 0, 0, 0}, {1, 0, 0, 1}}});
  EXPECT_EQ(topology.missing_devices(), (std::vector<Coordinates>{{0, 0, 0, 1}, {1, 0, 0, 0}}));
  EXPECT_EQ(error_of([&] {
              topology.tpu_device_name_at_coordinates({1, 0, 0, 0});
            }),
            "not_found: no device has the TPU core at [1, 0, 0, 0]");
}

TEST(TpuTopology, RefusesWhatIsNoMesh) {
  EXPECT_EQ(error_of([] { Topology({1 << 20, 1 << 20, 1 << 20, 2}, {}); }).substr(0, 16), "invalid_argument");
  EXPECT_EQ(error_of([] {
              Topology({1, 1, 1, 2}, {{{0, 0, 0, 0}}, {}});
            }),
            "invalid_argument: task 1 has 0 TPU cores and task 0 has 1; all tasks must have as many");
}

// Chips that follow each other in a ring are neighbours, also the last and the first.
TEST(DeviceAssignment, FormsRings) {
  for (const Coordinates& mesh : {Coordinates{4, 4, 1, 2}, Coordinates{4, 2, 4, 1}, Coordinates{1, 4, 2, 2}}) {
    const auto ring = DeviceAssignment::build(topology_of(mesh),
                                              {.computation_shape = mesh, .device_order_mode = DeviceOrderMode::ring})
                          .core_assignment()[0];
    const auto cores = static_cast<size_t>(mesh[3]);
    for (size_t i = 0; i < ring.size(); i += cores) {
      const Coordinates &here = ring[i], &next = ring[(i + cores) % ring.size()];
      int distance = 0;
      for (size_t axis = 0; axis < 3; ++axis) distance += std::abs(here[axis] - next[axis]);
      EXPECT_EQ(distance, 1) << to_string(here) << " " << to_string(next);
    }
  }
}

TEST(DeviceAssignment, SaysHowManyReplicasFit) {
  EXPECT_EQ(
      error_of([] {
        DeviceAssignment::build(topology_of({2, 2, 1, 2}), {.computation_shape = {1, 1, 1, 2}, .num_replicas = 5});
      }),
      "invalid_argument: requested 5 replicas but only 4 replicas with shape [1, 1, 1, 2] and computation_stride "
      "[1, 1, 1, 1] fit in a TPU mesh of shape [2, 2, 1, 2]");
}

TEST(DeviceAssignment, PassesOverMissingCores) {
  const Topology topology({2, 1, 1, 2}, {{{0, 0, 0, 0}, {1, 0, 0, 1}}});
  const auto assignment = DeviceAssignment::build(topology, {.num_replicas = 2});
  EXPECT_EQ(assignment.coordinates(1, 0), (Coordinates{1, 0, 0, 1}));
  EXPECT_EQ(code_of([&] { DeviceAssignment::build(topology, {.num_replicas = 3}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { assignment.coordinates(2, 0); }), ErrorCode::out_of_range);
}

}  // namespace
}  // namespace tutti::tpu
