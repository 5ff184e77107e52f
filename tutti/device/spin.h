#pragma once

#include <chrono>
#include <thread>

namespace tutti {

// Tells the processor that the thread only waits for another one.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls ready() until it holds, for about `limit`; returns whether it did.
template <class Ready>
bool spin_until(Ready ready, std::chrono::nanoseconds limit) {
  constexpr int kCallsPerClockRead = 16;
  const auto begin = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kCallsPerClockRead; ++i) {
      if (ready()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() - begin < limit);
  return false;
}

// How long one of `num_threads` threads that wait for each other should spin before it sleeps: longer than a hand-off
// between cores takes and much shorter than a time slice. Not at all when the awaited thread may need this core: only a
// thread that sleeps gets it there, and lets the system spread the others.
inline std::chrono::nanoseconds spin_limit(int num_threads) {
  using namespace std::chrono_literals;
  return num_threads <= static_cast<int>(std::thread::hardware_concurrency()) ? 20us : 0ns;
}

}  // namespace tutti
