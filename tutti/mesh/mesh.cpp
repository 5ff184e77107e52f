#include "tutti/mesh/mesh.h"

#include <algorithm>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"

namespace tutti {

struct Mesh::State {
  std::vector<MeshDimension> dimensions;
  std::vector<Device> devices;
  MeshOptions options;
  bool shares_memory = true;
};

namespace {

[[noreturn]] void refuse_mesh(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "Mesh: " + message);
}

void check_name(const std::string& name, size_t position) {
  if (name.empty()) refuse_mesh(str("dimension ", position, " has no name"));
  if (name == "unsharded" || name == "match") refuse_mesh(str("a dimension cannot be named \"", name, '"'));
  if (name.find_first_of("|,=: \n") != std::string::npos)
    refuse_mesh(str("a dimension is named \"", name, "\"; none of \"|,=:\" and white space may be in a name"));
}

void check_dimensions(const std::vector<MeshDimension>& dimensions, size_t num_devices) {
  if (dimensions.size() > static_cast<size_t>(Mesh::kMaxDimensions))
    refuse_mesh(str(dimensions.size(), " dimensions; there may be ", Mesh::kMaxDimensions));
  uint64_t product = 1;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const auto& [name, size] = dimensions[i];
    check_name(name, i);
    if (size < 1) refuse_mesh(str("dimension \"", name, "\" has size ", size, "; it must be at least 1"));
    for (size_t j = 0; j < i; ++j)
      if (dimensions[j].name == name) refuse_mesh(str("dimension \"", name, "\" is there twice"));
    if (product > num_devices / static_cast<uint64_t>(size)) {
      refuse_mesh(str(num_devices, " devices for dimensions whose product is more; the two must be equal"));
    }
    product *= static_cast<uint64_t>(size);
  }
  if (product != num_devices)
    refuse_mesh(str(num_devices, " devices for dimensions whose product is ", product, "; the two must be equal"));
}

void check_devices(const std::vector<Device>& devices) {
  if (devices.size() > static_cast<size_t>(Mesh::kMaxDevices))
    refuse_mesh(str(devices.size(), " devices; there may be ", Mesh::kMaxDevices));
  if (devices.empty()) refuse_mesh("the list of devices is empty; name at least one, such as \"CPU:0\"");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      refuse_mesh(str("device ", devices[i], " is listed twice"));
  }
}

}  // namespace

Mesh::Mesh(std::vector<MeshDimension> dimensions, std::vector<Device> devices, MeshOptions options) {
  for (Device& device : devices) device = require_logical_device(device);
  if (options.home) options.home = require_logical_device(*options.home);
  if (options.name.find_first_of("|\n") != std::string::npos)
    refuse_mesh(str("it is named \"", options.name, "\"; '|' may not be in the name"));
  check_devices(devices);
  check_dimensions(dimensions, devices.size());
  static std::mutex mutex;
  static std::vector<std::unique_ptr<State>>& interned = *new std::vector<std::unique_ptr<State>>;
  const std::lock_guard lock(mutex);
  for (const auto& state : interned)
    if (state->dimensions == dimensions && state->devices == devices && state->options == options) {
      state_ = state.get();
      return;
    }
  const bool shares_memory = options.home || std::all_of(devices.begin(), devices.end(), [&](const Device& device) {
                               return share_memory(device, devices.front());
                             });
  interned.push_back(
      std::make_unique<State>(State{std::move(dimensions), std::move(devices), std::move(options), shares_memory}));
  state_ = interned.back().get();
}

const std::vector<MeshDimension>& Mesh::dimensions() const { return state_->dimensions; }
const std::vector<Device>& Mesh::devices() const { return state_->devices; }
const MeshOptions& Mesh::options() const { return state_->options; }
bool Mesh::shares_memory() const { return state_->shares_memory; }

int Mesh::dimension(const std::string& name) const {
  const auto& all = dimensions();
  const auto found = std::find_if(all.begin(), all.end(), [&](const MeshDimension& d) { return d.name == name; });
  if (found == all.end())
    throw Error(ErrorCode::invalid_argument, str("Mesh: no dimension \"", name, "\" in ", to_string()));
  return static_cast<int>(found - all.begin());
}

int64_t Mesh::dim_size(const std::string& name) const {
  return dimensions()[static_cast<size_t>(dimension(name))].size;
}

bool Mesh::contains(const std::string& name) const {
  return std::any_of(dimensions().begin(), dimensions().end(), [&](const MeshDimension& d) { return d.name == name; });
}

std::vector<int64_t> Mesh::shape() const {
  std::vector<int64_t> sizes;
  for (const MeshDimension& dimension : dimensions()) sizes.push_back(dimension.size);
  return sizes;
}

std::vector<int64_t> Mesh::strides() const {
  std::vector<int64_t> strides(dimensions().size(), 1);
  for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * dimensions()[d].size;
  return strides;
}

std::vector<int64_t> Mesh::coordinates(int64_t device) const {
  if (device < 0 || device >= num_devices())
    throw Error(ErrorCode::out_of_range,
                str("Mesh::coordinates: device ", device, " of the ", num_devices(), " in ", to_string()));
  const auto steps = strides();
  std::vector<int64_t> coordinates;
  for (size_t d = 0; d < steps.size(); ++d) coordinates.push_back(device / steps[d] % dimensions()[d].size);
  return coordinates;
}

Mesh Mesh::sub_mesh(const std::map<std::string, int64_t>& fixed) const {
  for (const auto& [name, coordinate] : fixed)
    if (const int64_t size = dim_size(name); coordinate < 0 || coordinate >= size)
      throw Error(ErrorCode::out_of_range, str("Mesh::sub_mesh: coordinate ", coordinate, " of dimension \"", name,
                                               "\", which has size ", size));
  std::vector<MeshDimension> kept;
  for (const MeshDimension& dimension : dimensions())
    if (!fixed.contains(dimension.name)) kept.push_back(dimension);
  std::vector<Device> chosen;
  for (int64_t device = 0; device < num_devices(); ++device) {
    const auto at = coordinates(device);
    if (std::all_of(fixed.begin(), fixed.end(),
                    [&](const auto& f) { return at[static_cast<size_t>(dimension(f.first))] == f.second; }))
      chosen.push_back(devices()[static_cast<size_t>(device)]);
  }
  return Mesh(std::move(kept), std::move(chosen), options());
}

std::string Mesh::to_string() const {
  std::string text = "<";
  for (const auto& [name, size] : dimensions()) text += str(text.size() > 1 ? ", " : "", name, '=', size);
  return text + ">";
}

}  // namespace tutti
