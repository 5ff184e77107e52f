#include "tutti/cluster/device_assignment.h"

#include <algorithm>
#include <cmath>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::tpu {
namespace {

using CoreAssignment = DeviceAssignment::CoreAssignment;
using Chip = std::array<int, 3>;

constexpr size_t kCore = 3;  // the axis of a core's number on its chip

template <class Numbers>
int product(const Numbers& numbers) {
  int all = 1;
  for (const int number : numbers) all *= number;
  return all;
}

void check_positive(const Coordinates& sizes, const char* name) {
  if (*std::min_element(sizes.begin(), sizes.end()) < 1)
    throw Error(ErrorCode::invalid_argument, str(name, " is ", to_string(sizes), "; sizes from 1 are required"));
}

// How many replicas there is room for along each axis: as many blocks as fit, each with as many shifted ones between
// its cores as the stride leaves.
Coordinates room_of(const Topology& topology, const DeviceAssignmentOptions& options) {
  Coordinates room;
  for (size_t axis = 0; axis < room.size(); ++axis) {
    const int64_t footprint = int64_t{options.computation_shape[axis]} * options.computation_stride[axis];
    if (footprint > topology.mesh_shape()[axis])
      throw Error(ErrorCode::invalid_argument,
                  str("a replica of shape ", to_string(options.computation_shape), " with strides ",
                      to_string(options.computation_stride), " does not fit in a TPU mesh of shape ",
                      to_string(topology.mesh_shape())));
    room[axis] = topology.mesh_shape()[axis] / static_cast<int>(footprint) * options.computation_stride[axis];
  }
  if (options.num_replicas > product(room))
    throw Error(
        ErrorCode::invalid_argument,
        str("requested ", options.num_replicas, " replicas but only ", product(room), " replicas with shape ",
            to_string(options.computation_shape), " and computation_stride ", to_string(options.computation_stride),
            " fit in a TPU mesh of shape ", to_string(topology.mesh_shape())));
  return room;
}

// The block of replicas: as close to a cube as the room allows. The axes with the least room choose first, of equal
// ones the core's, then x: cores of one chip, and then chips of one host, are neighbours.
Coordinates block_of(int num_replicas, const Coordinates& room) {
  Coordinates block{};
  std::array<size_t, 4> order{kCore, 0, 1, 2};
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return room[a] < room[b]; });
  int rest = num_replicas, axes = 4;
  for (const size_t axis : order) {
    block[axis] = std::min(static_cast<int>(std::ceil(std::pow(rest, 1.0 / axes))), room[axis]);
    rest = (rest + block[axis] - 1) / block[axis];
    --axes;
  }
  return block;
}

// A ring through an even number of rows of `width` cells, but for its first cell: through the rows to and fro, leaving
// out the first column, by which it comes back. (column, row)
std::vector<std::array<int, 2>> open_ring(int width, int rows) {
  std::vector<std::array<int, 2>> ring;
  for (int row = 0; row < rows; ++row)
    for (int i = 1; i < width; ++i) ring.push_back({row % 2 == 0 ? i : width - i, row});
  for (int row = rows - 1; row > 0; --row) ring.push_back({0, row});
  return ring;
}

// A ring through a block of chips whose sizes are even, or 1. A block with an odd size has none, and chips follow each
// other along x, then y, then z.
std::vector<Chip> ring_of(const Chip& sizes) {
  const auto [x_size, y_size, z_size] = sizes;
  const bool is_line = std::count(sizes.begin(), sizes.end(), 1) >= 2;
  const bool is_odd = std::any_of(sizes.begin(), sizes.end(), [](int size) { return size > 1 && size % 2 != 0; });
  std::vector<Chip> ring;
  if (is_line || is_odd) {
    for (int z = 0; z < z_size; ++z)
      for (int y = 0; y < y_size; ++y)
        for (int x = 0; x < x_size; ++x) ring.push_back({x, y, z});
    return ring;
  }
  ring.push_back({0, 0, 0});
  if (y_size == 1) {
    for (const auto& [x, z] : open_ring(x_size, z_size)) ring.push_back({x, 0, z});
  } else if (x_size == 1) {
    for (const auto& [y, z] : open_ring(y_size, z_size)) ring.push_back({0, y, z});
  } else {
    for (int z = 0; z < z_size; ++z) {
      auto layer = open_ring(x_size, y_size);
      if (z % 2 != 0) std::reverse(layer.begin(), layer.end());
      for (const auto& [x, y] : layer) ring.push_back({x, y, z});
    }
    for (int z = z_size - 1; z > 0; --z) ring.push_back({0, 0, z});
  }
  return ring;
}

// Whether rings are possible: all cores of whole chips are taken, by blocks without gaps.
bool fills_chips(const Topology& topology, const DeviceAssignmentOptions& options, const Coordinates& room) {
  return options.computation_shape[kCore] == topology.mesh_shape()[kCore] && product(options.computation_stride) == 1 &&
         options.num_replicas == product(room);
}

CoreAssignment in_rings(const Topology& topology, const DeviceAssignmentOptions& options, const Coordinates& block) {
  const Coordinates& shape = options.computation_shape;
  const std::vector<Chip> inner = ring_of({shape[0], shape[1], shape[2]});
  const std::vector<Chip> outer = ring_of({block[0], block[1], block[2]});
  CoreAssignment assignment;
  for (const Chip& replica : outer) {
    assignment.emplace_back();
    for (const Chip& chip : inner)
      for (int core = 0; core < topology.mesh_shape()[kCore]; ++core)
        assignment.back().push_back(
            {replica[0] * shape[0] + chip[0], replica[1] * shape[1] + chip[1], replica[2] * shape[2] + chip[2], core});
  }
  return assignment;
}

// Where a replica begins: its number counts the cores of chips first, then x, y and z.
Coordinates start_of(int replica, const DeviceAssignmentOptions& options, const Coordinates& block) {
  Coordinates start;
  for (const size_t axis : {kCore, size_t{0}, size_t{1}, size_t{2}}) {
    const int at = replica % block[axis], stride = options.computation_stride[axis];
    replica /= block[axis];
    start[axis] = at / stride * options.computation_shape[axis] * stride + at % stride;
  }
  return start;
}

CoreAssignment along_axes(const DeviceAssignmentOptions& options, const Coordinates& block) {
  const auto& [nx, ny, nz, cores] = options.computation_shape;
  const auto& [dx, dy, dz, dcore] = options.computation_stride;
  CoreAssignment assignment;
  for (int replica = 0; replica < options.num_replicas; ++replica) {
    const Coordinates at = start_of(replica, options, block);
    assignment.emplace_back();
    for (int x = 0; x < nx; ++x)
      for (int y = 0; y < ny; ++y)
        for (int z = 0; z < nz; ++z)
          for (int core = 0; core < cores; ++core)
            assignment.back().push_back({at[0] + x * dx, at[1] + y * dy, at[2] + z * dz, at[3] + core * dcore});
  }
  return assignment;
}

CoreAssignment in_order_of_tasks(const Topology& topology, const DeviceAssignmentOptions& options) {
  const int cores = product(options.computation_shape);
  if (product(options.computation_stride) != 1 ||
      options.num_replicas * cores > topology.num_tasks() * topology.num_tpus_per_task())
    throw Error(ErrorCode::invalid_argument,
                str(options.num_replicas, " replicas of ", cores, " cores with strides ",
                    to_string(options.computation_stride), ": this mesh lacks ", topology.missing_devices().size(),
                    " cores, so strides must be 1, and it has ", topology.num_tasks() * topology.num_tpus_per_task()));
  CoreAssignment assignment(static_cast<size_t>(options.num_replicas));
  int next = 0;
  for (auto& replica : assignment)
    for (int i = 0; i < cores; ++i, ++next)
      replica.push_back(topology.device_coordinates()[static_cast<size_t>(next / topology.num_tpus_per_task())]
                                                     [static_cast<size_t>(next % topology.num_tpus_per_task())]);
  return assignment;
}

}  // namespace

DeviceAssignment::DeviceAssignment(Topology topology, CoreAssignment core_assignment)
    : topology_(std::move(topology)), core_assignment_(std::move(core_assignment)) {
  for (const auto& replica : core_assignment_) {
    if (replica.size() != core_assignment_.front().size())
      throw Error(ErrorCode::invalid_argument, "replicas have different numbers of cores; all must have as many");
    for (const Coordinates& core : replica) topology_.task_ordinal_at_coordinates(core);
  }
}

DeviceAssignment DeviceAssignment::build(const Topology& topology, const DeviceAssignmentOptions& options) {
  check_positive(options.computation_shape, "computation_shape");
  check_positive(options.computation_stride, "computation_stride");
  if (options.num_replicas < 0)
    throw Error(ErrorCode::invalid_argument, str("requested ", options.num_replicas, " replicas"));
  const Coordinates room = room_of(topology, options);
  if (options.num_replicas == 0) return DeviceAssignment(topology, {});
  if (!topology.missing_devices().empty()) return DeviceAssignment(topology, in_order_of_tasks(topology, options));
  const bool possible = fills_chips(topology, options, room);
  if (options.device_order_mode == DeviceOrderMode::ring && !possible)
    throw Error(ErrorCode::invalid_argument,
                str("replicas of shape ", to_string(options.computation_shape),
                    " form no ring: they must take all cores of their chips and of the mesh of shape ",
                    to_string(topology.mesh_shape()), ", without strides; or take the order `automatic`"));
  const Coordinates block = block_of(options.num_replicas, room);
  if (possible && options.device_order_mode != DeviceOrderMode::mesh)
    return DeviceAssignment(topology, in_rings(topology, options, block));
  return DeviceAssignment(topology, along_axes(options, block));
}

int DeviceAssignment::num_cores_per_replica() const {
  return core_assignment_.empty() ? 0 : static_cast<int>(core_assignment_.front().size());
}

const Coordinates& DeviceAssignment::coordinates(int replica, int logical_core) const {
  if (replica < 0 || replica >= num_replicas() || logical_core < 0 || logical_core >= num_cores_per_replica())
    throw Error(ErrorCode::out_of_range, str("logical core ", logical_core, " of replica ", replica, ": there are ",
                                             num_replicas(), " replicas of ", num_cores_per_replica(), " cores"));
  return core_assignment_[static_cast<size_t>(replica)][static_cast<size_t>(logical_core)];
}

int DeviceAssignment::tpu_ordinal(int replica, int logical_core) const {
  return topology_.tpu_device_ordinal_at_coordinates(coordinates(replica, logical_core));
}

std::string DeviceAssignment::tpu_device(int replica, int logical_core, const std::string& job) const {
  return topology_.tpu_device_name_at_coordinates(coordinates(replica, logical_core), job);
}

std::string DeviceAssignment::host_device(int replica, int logical_core, const std::string& job) const {
  return topology_.cpu_device_name_at_coordinates(coordinates(replica, logical_core), job);
}

std::vector<int> DeviceAssignment::lookup_replicas(int task, int logical_core) const {
  std::vector<int> replicas;
  for (int replica = 0; replica < num_replicas() && logical_core >= 0 && logical_core < num_cores_per_replica();
       ++replica)
    if (topology_.task_ordinal_at_coordinates(coordinates(replica, logical_core)) == task) replicas.push_back(replica);
  if (replicas.empty())
    throw Error(ErrorCode::invalid_argument, str("no replica has logical core ", logical_core, " in task ", task));
  return replicas;
}

}  // namespace tutti::tpu
