#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/device/device.h"

namespace tutti {

// A named axis of a mesh.
struct MeshDimension {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshDimension&) const = default;
};

// Where values are stored. Results are the same.
struct MeshOptions {
  // Where devices share one memory (logical CPUs, logical GPUs of one card): one buffer holds the whole value and
  // layouts are metadata; else each distinct shard has a buffer.
  bool merge = true;
  // The device in whose memory all values lie, if they do not lie on the devices of the mesh: these then read copies.
  std::optional<Device> home = {};
  bool operator==(const MeshOptions&) const = default;
};

// Devices in a row-major grid with named axes. An immutable value; copies share their state, equal meshes are one.
// TF: tf.experimental.dtensor.Mesh.
class Mesh {
 public:
  static constexpr int kMaxDimensions = 8;

  // Throws invalid_argument for an empty or duplicate name, a size below 1, more than 8 dimensions, a device listed
  // twice, or a number of devices that is not the product of the sizes; not_found for a device or a home that does not
  // exist.
  Mesh(std::vector<MeshDimension> dimensions, std::vector<Device> devices, MeshOptions options = {});

  const std::vector<MeshDimension>& dimensions() const;
  const std::vector<Device>& devices() const;
  const MeshOptions& options() const;
  int64_t num_devices() const { return static_cast<int64_t>(devices().size()); }

  // The position of a dimension. Throws not_found, naming those that exist.
  int dimension(const std::string& name) const;

  // Whether values lie in one memory: all devices share one, or there is a home.
  bool shares_memory() const;
  // The device in whose memory values lie where there is one memory.
  const Device& home() const { return options().home ? *options().home : devices().front(); }

  // One address for every mesh of equal content, for the life of the process.
  const void* identity() const { return state_; }
  bool operator==(const Mesh& other) const { return state_ == other.state_; }

  // "<batch=4, model=2>"
  std::string to_string() const;

 private:
  struct State;
  const State* state_;  // interned, never freed
};

}  // namespace tutti
