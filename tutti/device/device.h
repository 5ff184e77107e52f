#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

enum class DeviceType { cpu, gpu, tpu };

// "CPU", "GPU", "TPU".
std::string_view to_string(DeviceType type);

// The name of one logical device. A name says nothing about whether the device exists: require_logical_device does.
// Texts convert, so that {.devices = {"GPU:0", "GPU:1"}} is a list of devices.
// TF: tf.DeviceSpec, but always of one device: type and index are never left open.
struct Device {
  std::string job;             // empty: this process
  std::optional<int> replica;  // absent: not said
  std::optional<int> task;     // absent: not said
  DeviceType type = DeviceType::cpu;
  int index = 0;

  Device() = default;
  Device(DeviceType type, int index) : type(type), index(index) {}
  Device(const char* text) : Device(parse(text)) {}
  Device(const std::string& text) : Device(parse(text)) {}

  // Reads TensorFlow's spellings: "GPU:0", "/gpu:0", "CPU" (index 0), "/device:GPU:1",
  // "/job:worker/replica:0/task:1/device:GPU:2". Each part may come once, in any order.
  // Throws: invalid_argument, showing the text, the place, and right forms.
  static Device parse(std::string_view text);

  friend bool operator==(const Device&, const Device&) = default;
};

// TensorFlow's canonical text: "/device:CPU:0", "/job:worker/replica:0/task:1/device:GPU:2".
std::string to_string(const Device& device);
std::ostream& operator<<(std::ostream& out, const Device& device);

}  // namespace tutti
