// What TensorFlow 2.21 says of TPU topologies, of the cores that replicas are given, and of where TPUs are.
#include <gtest/gtest.h>

#include "tests/support/oracle_cases.h"
#include "tutti/cluster/device_assignment.h"
#include "tutti/cluster/tpu_cluster_resolver.h"
#include "tutti/cluster/tpu_topology.h"

namespace tutti::tpu {
namespace {

using oracle::Json;

Topology topology_of(const Json& test) {
  return Topology::of_lists(test.at("mesh_shape"), test.at("device_coordinates"));
}

// Whether f gives what was recorded, or fails as recorded.
template <class F>
bool gives(const Json& recorded, F f) {
  const bool must_fail = recorded.is_object() && recorded.contains("error");
  try {
    return Json(f()) == recorded && !must_fail;
  } catch (const Error& error) {
    return must_fail && oracle::same_family(error.code(), recorded.at("error"));
  }
}

bool topology(const Json& test) {
  const Topology topology = topology_of(test);
  const Json& expected = test.at("expected");
  bool holds = topology.num_tasks() == expected.at("num_tasks") &&
               topology.num_tpus_per_task() == expected.at("num_tpus_per_task") &&
               Json(topology.mesh_shape()) == expected.at("mesh_shape");
  for (const Json& one : expected.at("tpu_device_name_at_coordinates")) {
    const Coordinates at = one.at("coordinates");
    holds &= gives(one.contains("error") ? one : one.at("expected"), [&] {
      return Json{topology.tpu_device_name_at_coordinates(at, "worker"),
                  topology.cpu_device_name_at_coordinates(at, "worker"), topology.task_ordinal_at_coordinates(at),
                  topology.tpu_device_ordinal_at_coordinates(at)};
    });
  }
  return holds;
}

bool topology_invalid(const Json& test) {
  // A list where a list of lists is meant, which no C++ type takes: it has no coordinates for any device.
  if (test.at("device_coordinates").at(0).at(0).is_number())
    throw Error(ErrorCode::invalid_argument, "device_coordinates are of another type");
  const Topology topology = topology_of(test);
  const Json& expected = test.at("expected");
  return topology.num_tasks() == expected.at("num_tasks") &&
         Json(topology.missing_devices()) == expected.at("missing_devices");
}

Coordinates coordinates_or_ones(const Json& json) {
  return json.is_null() ? Coordinates{1, 1, 1, 1} : Coordinates(json);
}

bool device_assignment(const Json& test) {
  const std::string order = test.at("device_order_mode");
  const DeviceAssignment assignment = DeviceAssignment::build(
      topology_of(test), {.computation_shape = coordinates_or_ones(test.at("computation_shape")),
                          .computation_stride = coordinates_or_ones(test.at("computation_stride")),
                          .num_replicas = test.at("num_replicas"),
                          .device_order_mode = order == "AUTO"   ? DeviceOrderMode::automatic
                                               : order == "RING" ? DeviceOrderMode::ring
                                                                 : DeviceOrderMode::mesh});
  const Json& expected = test.at("expected");
  const int replica = assignment.num_replicas() - 1, core = assignment.num_cores_per_replica() - 1;
  return Json(assignment.core_assignment()) == expected.at("core_assignment") &&
         assignment.num_cores_per_replica() == expected.at("num_cores_per_replica") &&
         gives(expected.at("last_device"), [&] { return assignment.tpu_device(replica, core, "worker"); }) &&
         gives(expected.at("last_host"), [&] { return assignment.host_device(replica, 0, "worker"); }) &&
         gives(expected.at("last_ordinal"), [&] { return assignment.tpu_ordinal(replica, 0); }) &&
         gives(expected.at("replicas_of_task_0_core_0"), [&] { return assignment.lookup_replicas(0, 0); }) &&
         gives(expected.at("replicas_of_task_9_core_0"), [&] { return assignment.lookup_replicas(9, 0); });
}

bool resolver(const Json& test) {
  const Json& given = test.at("constructor");
  const Json& expected = test.at("expected");
  cluster::TPUClusterResolverOptions options;
  if (given.contains("tpu")) options.tpu = given.at("tpu");
  options.job_name = given.value("job_name", options.job_name);
  options.coordinator_name = given.value("coordinator_name", "");
  options.coordinator_address = given.value("coordinator_address", "");
  const cluster::Environment environment(test.at("environment").get<cluster::Environment::Variables>());
  const auto resolver = [&] { return cluster::TPUClusterResolver(options, environment); };
  if (expected.contains("construct")) return gives(expected.at("construct"), [&] { return resolver().master(); });
  const cluster::TPUClusterResolver made = resolver();
  return made.master() == expected.at("master") &&
         Json::parse(to_string(made.cluster_spec())) == expected.at("cluster_spec") &&
         made.task_type() == expected.at("task_type").get<std::string>() && made.task_id() == expected.at("task_id") &&
         made.environment() == expected.at("environment");
}

TEST(TpuOracle, EveryRecordedCaseHolds) {
  oracle::run_cases("tpu.json", [](const Json& test) {
    const std::string kind = test.at("kind");
    return kind == "topology"           ? topology(test)
           : kind == "topology_invalid" ? topology_invalid(test)
           : kind == "resolver"         ? resolver(test)
                                        : device_assignment(test);
  });
}

}  // namespace
}  // namespace tutti::tpu
