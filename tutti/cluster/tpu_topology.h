#pragma once

#include <array>
#include <string>
#include <vector>

namespace tutti::tpu {

// Of a core: x, y and z of its chip, and its number on the chip.
using Coordinates = std::array<int, 4>;
std::string to_string(const Coordinates& coordinates);

// Which cores a TPU system has, and which task drives each. A value. Coordinates that are negative count from the end
// of their axis. TF: tf.tpu.experimental.Topology.
class Topology {
 public:
  // `device_coordinates[task][device]`; `mesh_shape` is one more than the largest coordinates. Throws: invalid_argument
  // for a mesh without cores and for tasks with different numbers of devices, out_of_range for a device outside the
  // mesh.
  Topology(const Coordinates& mesh_shape, std::vector<std::vector<Coordinates>> device_coordinates);
  // The same from lists whose lengths are not known to be right. Throws also: invalid_argument for those that are not.
  static Topology of_lists(const std::vector<int>& mesh_shape,
                           const std::vector<std::vector<std::vector<int>>>& device_coordinates);

  const Coordinates& mesh_shape() const { return mesh_shape_; }
  const std::vector<std::vector<Coordinates>>& device_coordinates() const { return device_coordinates_; }
  int num_tasks() const { return static_cast<int>(device_coordinates_.size()); }
  int num_tpus_per_task() const;
  // Coordinates of the mesh that no device has, in order.
  std::vector<Coordinates> missing_devices() const;

  // Throw: out_of_range for coordinates outside of the mesh, not_found for those of a missing device.
  int task_ordinal_at_coordinates(const Coordinates& coordinates) const { return place_of(coordinates).task; }
  int tpu_device_ordinal_at_coordinates(const Coordinates& coordinates) const { return place_of(coordinates).device; }
  // "/job:worker/task:0/device:TPU:1"; without a job "/task:0/…".
  std::string tpu_device_name_at_coordinates(const Coordinates& coordinates, const std::string& job = {}) const;
  std::string cpu_device_name_at_coordinates(const Coordinates& coordinates, const std::string& job = {}) const;

  bool operator==(const Topology&) const = default;

 private:
  struct Place {
    int task = -1, device = -1;
    bool operator==(const Place&) const = default;
  };
  size_t index_of(const Coordinates& coordinates) const;
  const Place& place_of(const Coordinates& coordinates) const;

  Coordinates mesh_shape_;
  std::vector<std::vector<Coordinates>> device_coordinates_;
  std::vector<Place> places_;  // of the mesh's cores, the number on the chip fastest
};

}  // namespace tutti::tpu
