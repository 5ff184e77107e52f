#include "tutti/distribute/turns.h"

namespace tutti {

void Turns::take(int replica) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return now_ == replica; });
}

// Requires: mutex_. The replica itself, if no other is left.
void Turns::go_on_from(int replica) {
  const int num_replicas = static_cast<int>(ended_.size());
  for (int step = 1; step <= num_replicas; ++step) {
    now_ = (replica + step) % num_replicas;
    if (!ended_[static_cast<size_t>(now_)]) break;
  }
  changed_.notify_all();
}

void Turns::pass(int replica) {
  const std::lock_guard lock(mutex_);
  go_on_from(replica);
}

void Turns::end(int replica) {
  const std::lock_guard lock(mutex_);
  ended_[static_cast<size_t>(replica)] = true;
  go_on_from(replica);
}

}  // namespace tutti
