#include "tutti/estimator/log.h"

#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <mutex>
#include <utility>

namespace tutti::estimator {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink sink;
};

Sink& the_sink() {
  static Sink sink;
  return sink;
}

}  // namespace

void log_info(const std::string& line) {
  Sink& to = the_sink();
  const std::lock_guard lock(to.mutex);
  if (to.sink)
    to.sink(line);
  else
    std::cerr << "tutti: " << line << '\n';
}

LogSink set_log_sink(LogSink sink) {
  Sink& to = the_sink();
  const std::lock_guard lock(to.mutex);
  return std::exchange(to.sink, std::move(sink));
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value));
  return {text.data(), end.ptr};
}

}  // namespace tutti::estimator
