#include "tutti/cluster/rpc/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>

namespace tutti::rpc {
namespace {

using Clock = std::chrono::steady_clock;  // the kernel's monotonic one
static_assert(kMostBells == FUTEX_WAITV_MAX && kAnything == FUTEX_BITSET_MATCH_ANY);

constexpr int kPauses = 16;  // before a thread sleeps: it may need the other one's core
constexpr std::chrono::milliseconds kLongestSleep(100);

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <class F>
bool comes_soon(const F& has_rung) {
  for (int i = 0; i < kPauses; ++i) {
    if (has_rung()) return true;
    pause_core();
  }
  return false;
}

timespec end_of_sleep(Clock::time_point deadline) {
  const auto until = std::min(deadline, Clock::now() + kLongestSleep).time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  return {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(until - seconds).count()};
}

}  // namespace

void ring(Bell& bell, uint32_t reason) {
  bell.count.fetch_add(1, std::memory_order_seq_cst);
  if (reason == kMessages && bell.is_sleeping.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &bell.count, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, reason);
}

void wait_past(Bell& bell, uint32_t seen, uint32_t reasons, Clock::time_point deadline) {
  if (comes_soon([&] { return bell.count.load(std::memory_order_acquire) != seen; })) return;
  const timespec time = end_of_sleep(deadline);
  const bool for_messages = (reasons & kMessages) != 0;
  if (for_messages) bell.is_sleeping.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell.count, FUTEX_WAIT_BITSET, seen, &time, nullptr, reasons);
  if (for_messages) bell.is_sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

bool can_wait_for_several() {
  static const bool can = syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, CLOCK_MONOTONIC) < 0 && errno == EINVAL;
  return can;
}

void wait_past_any(std::span<const SeenBell> bells, Clock::time_point deadline) {
  if (bells.size() == 1) return wait_past(*bells[0].bell, bells[0].seen, kMessages, deadline);
  const auto has_rung = [](const SeenBell& each) {
    return each.bell->count.load(std::memory_order_acquire) != each.seen;
  };
  if (comes_soon([&] { return std::ranges::any_of(bells, has_rung); })) return;
  std::array<futex_waitv, kMostBells> waits;
  for (size_t i = 0; i < bells.size(); ++i) {
    waits[i] = {.val = bells[i].seen,
                .uaddr = reinterpret_cast<uintptr_t>(&bells[i].bell->count),
                .flags = FUTEX_32,
                .__reserved = 0};
    bells[i].bell->is_sleeping.fetch_add(1, std::memory_order_seq_cst);
  }
  const timespec time = end_of_sleep(deadline);
  syscall(SYS_futex_waitv, waits.data(), bells.size(), 0, &time, CLOCK_MONOTONIC);
  for (const SeenBell& each : bells) each.bell->is_sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace tutti::rpc
