#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/device/device.h"

namespace tutti {

// A named axis of a mesh.
struct MeshDimension {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshDimension&) const = default;
};

// Where values are stored, and a name for people. Results are the same.
struct MeshOptions {
  // Where devices share one memory (logical CPUs, logical GPUs of one card): one buffer holds the whole value and
  // layouts are metadata; else each distinct shard has a buffer.
  bool merge = true;
  // The device in whose memory all values lie, if they do not lie on the devices of the mesh: these then read copies.
  std::optional<Device> home = {};
  std::string name = {};  // without '|'
  bool operator==(const MeshOptions&) const = default;
};

// Devices, in any order, in a row-major grid with named axes. An immutable value; copies share their state, equal
// meshes are one. A device is known by its index in devices(). TF: tf.experimental.dtensor.Mesh.
class Mesh {
 public:
  static constexpr int kMaxDimensions = 8;
  static constexpr int kMaxDevices = 65'535;

  // No dimensions are the mesh of one device. Throws invalid_argument for an empty, reserved or duplicate name, or one
  // with a character of "|,=:" in it, a size below 1, more than 8 dimensions, a device listed twice, or a number of
  // devices that is not the product of the sizes; not_found for a device or a home that does not exist.
  Mesh(std::vector<MeshDimension> dimensions, std::vector<Device> devices, MeshOptions options = {});

  // Reads TensorFlow's text, as serialize() writes it; a list of global devices may follow if it is that of the local
  // ones. `options` says what the text does not. Throws: invalid_argument, naming the place, also for ids that are not
  // 0, 1, 2, …; else as the constructor.
  static Mesh parse(std::string_view text, MeshOptions options = {});
  // "name|x=2,y=2|0,1,2,3|0,1,2,3|/job:localhost/replica:0/task:0/device:CPU:0,…": dimensions, global ids, local ids
  // and devices. TF: Mesh.to_string.
  std::string serialize() const;

  const std::vector<MeshDimension>& dimensions() const;
  const std::vector<Device>& devices() const;
  const MeshOptions& options() const;
  const std::string& name() const { return options().name; }
  int64_t num_devices() const { return static_cast<int64_t>(devices().size()); }

  // The position of a dimension, and its size. Throws invalid_argument, naming those that exist.
  int dimension(const std::string& name) const;
  int64_t dim_size(const std::string& name) const;
  bool contains(const std::string& name) const;
  // The sizes, and how far apart in devices() neighbours along each dimension are.
  std::vector<int64_t> shape() const;
  std::vector<int64_t> strides() const;
  // Where a device lies along each dimension. Throws out_of_range.
  std::vector<int64_t> coordinates(int64_t device) const;
  // The devices at these coordinates, as a mesh of the other dimensions. Throws invalid_argument for an unknown
  // dimension, out_of_range for a coordinate outside of it.
  Mesh sub_mesh(const std::map<std::string, int64_t>& coordinates) const;

  // Whether values lie in one memory: all devices share one, or there is a home.
  bool shares_memory() const;
  // The device in whose memory values lie where there is one memory.
  const Device& home() const { return options().home ? *options().home : devices().front(); }

  // One address for every mesh of equal content, for the life of the process.
  const void* identity() const { return state_; }
  bool operator==(const Mesh& other) const { return state_ == other.state_; }

  // "<batch=4, model=2>", for messages
  std::string to_string() const;

 private:
  struct State;
  const State* state_;  // interned, never freed
};

}  // namespace tutti
