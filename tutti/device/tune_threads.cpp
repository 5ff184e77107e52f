#include "tutti/device/tune_threads.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

namespace tutti {
namespace tune_threads_internal {

std::optional<ProcessorTimes> parse_processor_times(std::string_view text) {
  std::istringstream words{std::string(text.substr(0, text.find('\n')))};
  std::string name;
  if (!(words >> name) || name != "cpu") return {};
  constexpr int kIdle = 3, kWaitsForDisk = 4, kGuest = 8;  // what guests use counts as used before, too
  ProcessorTimes times;
  int64_t ticks = 0;
  for (int i = 0; i < kGuest && words >> ticks; ++i) {
    times.all += ticks;
    if (i == kIdle || i == kWaitsForDisk) times.idle += ticks;
  }
  return times.all > 0 ? std::optional(times) : std::nullopt;
}

int free_processors(const ProcessorTimes& before, const ProcessorTimes& after, double own, int processors) {
  const auto all = static_cast<double>(after.all - before.all), idle = static_cast<double>(after.idle - before.idle);
  if (all <= 0) return processors;
  constexpr double kLittle = 0.35;  // of a processor: others that use no more than this do not count
  const double free = idle / all * processors + own;
  return std::clamp(static_cast<int>(std::floor(free + kLittle)), 1, processors);
}

Usage Usage::now() {
  std::ifstream file("/proc/stat");
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {.all = parse_processor_times(std::string{std::istreambuf_iterator(file), {}}),
          .own_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

int free_processors(const Usage& before, const Usage& after, std::chrono::duration<double> time) {
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (!before.all || !after.all) return processors;
  const double own = (after.own_seconds - before.own_seconds) / std::max(1e-3, time.count());
  return free_processors(*before.all, *after.all, own, processors);
}

}  // namespace tune_threads_internal

int tune_threads(std::chrono::milliseconds time) {
  const auto before = tune_threads_internal::Usage::now();
  std::this_thread::sleep_for(time);
  const int threads = tune_threads_internal::free_processors(before, tune_threads_internal::Usage::now(), time);
  at::set_num_threads(threads);
  return threads;
}

}  // namespace tutti
