#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tutti/device/device.h"

namespace tutti {

using Tensor = at::Tensor;

// The devices that a result is wanted on: a device, a list of them, or those on which a tensor or a variable lies.
// Copies share the list. TF: the argument `destinations` of reduce_to.
class Destinations {
 public:
  template <std::convertible_to<Device> D>
  Destinations(const D& device) : Destinations(std::vector<Device>{Device(device)}) {}
  Destinations(std::initializer_list<Device> devices) : Destinations(std::vector<Device>(devices)) {}
  // Throws: invalid_argument for an empty list.
  Destinations(std::vector<Device> devices);
  // A mesh tensor's: the devices of its mesh. Throws: not_found for a tensor on no logical device.
  template <std::convertible_to<Tensor> T>
  Destinations(const T& like) : Destinations(devices_of(like)) {}

  const std::vector<Device>& devices() const { return *devices_; }
  size_t size() const { return devices_->size(); }

 private:
  static std::vector<Device> devices_of(const Tensor& like);

  std::shared_ptr<const std::vector<Device>> devices_;
};

}  // namespace tutti
