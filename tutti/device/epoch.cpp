#include "tutti/device/epoch.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "tutti/device/spin.h"

namespace tutti {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Sleeps if the word still holds `expected`; returns at a wake-up, a signal, or the timeout.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::optional<std::chrono::nanoseconds> timeout) {
  timespec limit{};
  if (timeout) limit = {.tv_sec = timeout->count() / 1'000'000'000, .tv_nsec = timeout->count() % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout ? &limit : nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// No wake-up is lost: a thread counts itself before the kernel compares the value, the value moves before the count is
// read. So either the count is seen here, or the new value is seen there.
void Epoch::wake() {
  if (num_sleeping_.load(std::memory_order_seq_cst) > 0) futex_wake_all(value_);
}

bool Epoch::wait_past(uint32_t seen, std::chrono::nanoseconds spin, std::optional<std::chrono::nanoseconds> timeout) {
  if (spin_until([&] { return value() != seen; }, spin)) return true;
  num_sleeping_.fetch_add(1, std::memory_order_seq_cst);
  const bool passed = sleep(seen, timeout);
  num_sleeping_.fetch_sub(1, std::memory_order_relaxed);
  return passed;
}

bool Epoch::sleep(uint32_t seen, std::optional<std::chrono::nanoseconds> timeout) {
  const auto begin = std::chrono::steady_clock::now();
  while (value() == seen) {
    std::optional<std::chrono::nanoseconds> left;
    if (timeout) {
      left = *timeout - (std::chrono::steady_clock::now() - begin);
      if (left->count() <= 0) return false;
    }
    futex_wait(value_, seen, left);
  }
  return true;
}

}  // namespace tutti
