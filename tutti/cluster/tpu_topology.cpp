#include "tutti/cluster/tpu_topology.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::tpu {
namespace {

constexpr int64_t kMaxCores = 1 << 20;  // more is taken for a mistake, before memory is given to them

Coordinates coordinates_of(const std::vector<int>& list, const char* what) {
  Coordinates coordinates;
  if (list.size() != coordinates.size())
    throw Error(ErrorCode::invalid_argument,
                str(what, " ", str_list(list), " has ", list.size(), " numbers; 4 are required: x, y, z and the core"));
  std::copy(list.begin(), list.end(), coordinates.begin());
  return coordinates;
}

std::string device_name(const std::string& job, int task, const std::string& device) {
  return str(job.empty() ? "" : "/job:" + job, "/task:", task, "/device:", device);
}

}  // namespace

std::string to_string(const Coordinates& coordinates) { return str_list(coordinates); }

Topology::Topology(const Coordinates& mesh_shape, std::vector<std::vector<Coordinates>> device_coordinates)
    : mesh_shape_(mesh_shape), device_coordinates_(std::move(device_coordinates)) {
  int64_t cores = 1;
  for (const int size : mesh_shape_) {
    if (size < 1 || cores > kMaxCores / size)
      throw Error(ErrorCode::invalid_argument,
                  str("a TPU mesh of shape ", to_string(mesh_shape_), ": four sizes from 1 are required, and at most ",
                      kMaxCores, " cores"));
    cores *= size;
  }
  places_.resize(static_cast<size_t>(cores));
  for (int task = 0; task < num_tasks(); ++task) {
    const auto& devices = device_coordinates_[static_cast<size_t>(task)];
    if (static_cast<int>(devices.size()) != num_tpus_per_task())
      throw Error(ErrorCode::invalid_argument, str("task ", task, " has ", devices.size(), " TPU cores and task 0 has ",
                                                   num_tpus_per_task(), "; all tasks must have as many"));
    for (size_t device = 0; device < devices.size(); ++device)
      places_[index_of(devices[device])] = {task, static_cast<int>(device)};
  }
}

Topology Topology::of_lists(const std::vector<int>& mesh_shape,
                            const std::vector<std::vector<std::vector<int>>>& device_coordinates) {
  std::vector<std::vector<Coordinates>> tasks;
  for (const auto& devices : device_coordinates) {
    tasks.emplace_back();
    for (const auto& device : devices) tasks.back().push_back(coordinates_of(device, "a device at"));
  }
  return Topology(coordinates_of(mesh_shape, "a TPU mesh of shape"), std::move(tasks));
}

int Topology::num_tpus_per_task() const {
  return device_coordinates_.empty() ? 0 : static_cast<int>(device_coordinates_.front().size());
}

size_t Topology::index_of(const Coordinates& coordinates) const {
  size_t index = 0;
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    const int size = mesh_shape_[axis], at = coordinates[axis] + (coordinates[axis] < 0 ? size : 0);
    if (at < 0 || at >= size)
      throw Error(ErrorCode::out_of_range, str("the TPU core at ", to_string(coordinates),
                                               " is outside of the mesh of shape ", to_string(mesh_shape_)));
    index = index * static_cast<size_t>(size) + static_cast<size_t>(at);
  }
  return index;
}

const Topology::Place& Topology::place_of(const Coordinates& coordinates) const {
  const Place& place = places_[index_of(coordinates)];
  if (place.task < 0) throw Error(ErrorCode::not_found, str("no device has the TPU core at ", to_string(coordinates)));
  return place;
}

std::vector<Coordinates> Topology::missing_devices() const {
  std::vector<Coordinates> missing;
  for (size_t index = 0; index < places_.size(); ++index) {
    if (places_[index].task >= 0) continue;
    Coordinates& coordinates = missing.emplace_back();
    size_t rest = index;
    for (size_t axis = coordinates.size(); axis-- > 0;) {
      coordinates[axis] = static_cast<int>(rest % static_cast<size_t>(mesh_shape_[axis]));
      rest /= static_cast<size_t>(mesh_shape_[axis]);
    }
  }
  return missing;
}

std::string Topology::tpu_device_name_at_coordinates(const Coordinates& coordinates, const std::string& job) const {
  const Place& place = place_of(coordinates);
  return device_name(job, place.task, str("TPU:", place.device));
}

std::string Topology::cpu_device_name_at_coordinates(const Coordinates& coordinates, const std::string& job) const {
  return device_name(job, place_of(coordinates).task, "CPU:0");
}

}  // namespace tutti::tpu
