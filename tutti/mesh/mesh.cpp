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

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, "Mesh: " + message); }

void check_dimensions(const std::vector<MeshDimension>& dimensions, size_t num_devices) {
  if (dimensions.empty() || dimensions.size() > static_cast<size_t>(Mesh::kMaxDimensions))
    refuse(str(dimensions.size(), " dimensions; there must be 1 to ", Mesh::kMaxDimensions));
  uint64_t product = 1;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const auto& [name, size] = dimensions[i];
    if (name.empty()) refuse(str("dimension ", i, " has no name"));
    if (name == "unsharded") refuse("a dimension cannot be named \"unsharded\"");
    if (size < 1) refuse(str("dimension \"", name, "\" has size ", size, "; it must be at least 1"));
    for (size_t j = 0; j < i; ++j)
      if (dimensions[j].name == name) refuse(str("dimension \"", name, "\" is there twice"));
    product *= static_cast<uint64_t>(size);
    if (product > num_devices) break;
  }
  if (product != num_devices)
    refuse(str(num_devices, " devices for dimensions whose product is ",
               product > num_devices ? str("more than ", num_devices) : str(product), "; the two must be equal"));
}

void check_devices(const std::vector<Device>& devices) {
  if (devices.empty()) refuse("the list of devices is empty; name at least one, such as \"CPU:0\"");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(str("device ", devices[i], " is listed twice"));
  }
}

}  // namespace

Mesh::Mesh(std::vector<MeshDimension> dimensions, std::vector<Device> devices, MeshOptions options) {
  for (Device& device : devices) device = require_logical_device(device);
  if (options.home) options.home = require_logical_device(*options.home);
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
  interned.push_back(std::make_unique<State>(State{std::move(dimensions), std::move(devices), options, shares_memory}));
  state_ = interned.back().get();
}

const std::vector<MeshDimension>& Mesh::dimensions() const { return state_->dimensions; }
const std::vector<Device>& Mesh::devices() const { return state_->devices; }
const MeshOptions& Mesh::options() const { return state_->options; }
bool Mesh::shares_memory() const { return state_->shares_memory; }

int Mesh::dimension(const std::string& name) const {
  const auto& all = dimensions();
  const auto found = std::find_if(all.begin(), all.end(), [&](const MeshDimension& d) { return d.name == name; });
  if (found == all.end()) throw Error(ErrorCode::not_found, str("Mesh: no dimension \"", name, "\" in ", to_string()));
  return static_cast<int>(found - all.begin());
}

std::string Mesh::to_string() const {
  std::string text = "<";
  for (const auto& [name, size] : dimensions()) text += str(text.size() > 1 ? ", " : "", name, '=', size);
  return text + ">";
}

}  // namespace tutti
