#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tutti {

// A number that only goes up, and that threads wait on: they spin for a while, then sleep in the kernel.
// What a thread wrote before advance() is visible to a thread that has seen the new value.
class Epoch {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Lets spinning threads go on; sleeping ones need wake() too. Apart, so that the kernel is never called under a lock.
  void advance() { value_.fetch_add(1, std::memory_order_seq_cst); }
  void wake();

  // Waits until the value is not `seen`. Returns false if `timeout` ran out first.
  bool wait_past(uint32_t seen, std::chrono::nanoseconds spin, std::optional<std::chrono::nanoseconds> timeout = {});

 private:
  bool sleep(uint32_t seen, std::optional<std::chrono::nanoseconds> timeout);

  std::atomic<uint32_t> value_ = 0;
  std::atomic<int> num_sleeping_ = 0;
};

}  // namespace tutti
