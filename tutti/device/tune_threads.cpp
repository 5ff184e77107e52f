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

}  // namespace tune_threads_internal

namespace {

using tune_threads_internal::ProcessorTimes;

std::optional<ProcessorTimes> processor_times() {
  std::ifstream file("/proc/stat");
  return tune_threads_internal::parse_processor_times(std::string{std::istreambuf_iterator(file), {}});
}

double own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int tune_threads(std::chrono::milliseconds time) {
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const double own_before = own_seconds();
  const auto before = processor_times();
  std::this_thread::sleep_for(time);
  const auto after = processor_times();
  const double own = (own_seconds() - own_before) / std::max(1e-3, std::chrono::duration<double>(time).count());
  const int threads =
      before && after ? tune_threads_internal::free_processors(*before, *after, own, processors) : processors;
  at::set_num_threads(threads);
  return threads;
}

}  // namespace tutti
