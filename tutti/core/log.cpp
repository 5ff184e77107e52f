#include "tutti/core/log.h"

#include <iostream>
#include <mutex>
#include <utility>

namespace tutti {
namespace {

struct Log {
  std::mutex mutex;
  WarningSink sink;  // guarded by mutex
};

Log& log() {
  static Log instance;
  return instance;
}

}  // namespace

void warn(const std::string& message) {
  const std::lock_guard lock(log().mutex);
  if (log().sink) return log().sink(message);
  std::cerr << "tutti: warning: " << message << '\n';
}

WarningSink set_warning_sink(WarningSink sink) {
  const std::lock_guard lock(log().mutex);
  return std::exchange(log().sink, std::move(sink));
}

}  // namespace tutti
