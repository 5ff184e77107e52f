#pragma once

#include <ATen/autocast_mode.h>

#include <optional>

namespace tutti {

// Autocast of a device's calls, to the dtype that LibTorch has for it or to another, until the end of the block.
class Autocast {
 public:
  explicit Autocast(at::DeviceType type, std::optional<at::ScalarType> dtype = {}) : type_(type) {
    at::autocast::set_autocast_enabled(type_, true);
    at::autocast::set_autocast_dtype(type_, dtype.value_or(dtype_before_));
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, was_enabled_);
    at::autocast::set_autocast_dtype(type_, dtype_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType type_;
  const bool was_enabled_ = at::autocast::is_autocast_enabled(type_);
  const at::ScalarType dtype_before_ = at::autocast::get_autocast_dtype(type_);
};

}  // namespace tutti
