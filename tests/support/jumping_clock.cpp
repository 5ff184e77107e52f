// A library to be preloaded (LD_PRELOAD): the clock that people set jumps a day to and fro, every 50 ms, for whoever
// asks. The steady clock, and the processor's own, go on as they are.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

namespace {

using ClockGettime = int (*)(clockid_t, timespec*);

ClockGettime real() {
  static const auto found = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return found;
}

time_t jump() {
  timespec steady{};
  real()(CLOCK_MONOTONIC, &steady);
  const bool is_away = steady.tv_nsec / 50'000'000 % 2 != 0;
  return is_away ? 86'400 : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = real()(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += jump();
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return result;
}
