#include "tutti/collectives/communications.h"

#include <map>
#include <mutex>

namespace tutti {
namespace {

struct CommunicationLog {
  std::mutex mutex;
  std::map<CommunicationKind, CommunicationCounter> counters;  // guarded by mutex; entries are never removed
};

// Never destroyed: threads may record until the process ends.
CommunicationLog& communication_log() {
  static auto* const instance = new CommunicationLog;
  return *instance;
}

}  // namespace

CommunicationCounter& communication_counter(const CommunicationKind& kind) {
  const std::lock_guard lock(communication_log().mutex);
  return communication_log().counters[kind];
}

std::vector<Communication> communications() {
  const std::lock_guard lock(communication_log().mutex);
  std::vector<Communication> result;
  for (const auto& [kind, counter] : communication_log().counters) {
    const int64_t count = counter.count_.load(std::memory_order_relaxed);
    if (count > 0) result.push_back({kind, count, counter.bytes_.load(std::memory_order_relaxed)});
  }
  return result;
}

void reset_communications() {
  const std::lock_guard lock(communication_log().mutex);
  for (auto& [kind, counter] : communication_log().counters) {
    counter.count_.store(0, std::memory_order_relaxed);
    counter.bytes_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace tutti
