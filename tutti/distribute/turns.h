#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

namespace tutti {

// Lets the replicas of a run compute one at a time, in their order: each until it waits for the others, or ends.
class Turns {
 public:
  explicit Turns(int num_replicas) : ended_(static_cast<size_t>(num_replicas)) {}

  // Waits until it is this replica's turn.
  void take(int replica);
  // It waits for the others: the next one's turn.
  void pass(int replica);
  // Its function has ended.
  void end(int replica);

 private:
  void go_on_from(int replica);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
  int now_ = 0;
};

}  // namespace tutti
