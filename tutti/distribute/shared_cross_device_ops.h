#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "tutti/distribute/cross_device_ops.h"

namespace tutti {

// Cross-device ops as the value of an option: any type that derives from CrossDeviceOps converts. Copies share one
// object. Empty: the strategy's own.
class SharedCrossDeviceOps {
 public:
  SharedCrossDeviceOps() = default;
  template <std::derived_from<CrossDeviceOps> Ops>
  SharedCrossDeviceOps(Ops ops) : ops_(std::make_shared<const Ops>(std::move(ops))) {}
  SharedCrossDeviceOps(std::shared_ptr<const CrossDeviceOps> ops) : ops_(std::move(ops)) {}

  const CrossDeviceOps* get() const { return ops_.get(); }

 private:
  std::shared_ptr<const CrossDeviceOps> ops_;
};

}  // namespace tutti
