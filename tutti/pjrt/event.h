#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tutti/pjrt/plugin.h"

namespace tutti::pjrt {

constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);

// Something that a device does while the program goes on. Copies are the same event. Threads: any may wait.
class Event {
 public:
  // One that has happened.
  Event() = default;
  // Takes the handle over; null is an event that has happened. `what` is done, for messages: "reading a float32 [2,
  // 3]". `held` is kept until the device is done with it, be it after a wait gave up.
  Event(const Plugin& plugin, abi::Event* event, std::string what, std::shared_ptr<const void> held = {});

  bool is_ready() const;
  // Throws: deadline_exceeded after `timeout`, which leaves the event as it is; the plugin's error if it failed, each
  // time.
  void wait(std::chrono::milliseconds timeout = kDefaultTimeout) const;

 private:
  struct State;
  static void on_ready(abi::Error* error, void* user_arg);

  std::shared_ptr<State> state_;
};

}  // namespace tutti::pjrt
