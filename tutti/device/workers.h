#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/device/epoch.h"

namespace tutti {

// n-1 threads that, with the caller of run, call one function for the ranks 0 … n-1, again and again.
// Rank 0 runs on the caller's thread, every other rank always on the same thread of its own ("NAME/RANK" in a
// debugger). Between two runs the threads spin for some microseconds, then sleep. One rank costs a plain call and no
// thread.
class Workers {
 public:
  // Throws: invalid_argument unless num_ranks >= 1, unavailable when the system has no more threads.
  explicit Workers(int num_ranks, std::string name = "replica");
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int num_ranks() const { return num_ranks_; }
  // Whether the threads are not there: they stay in the process that made them when fork() makes another.
  bool lost() const { return num_ranks_ > 1 && ::getpid() != process_; }

  // Calls function(rank) for every rank at once and returns when all have returned. Never allocates.
  // The function must not throw: an exception ends the process. One run at a time, and none from within a run.
  // Requires: !lost().
  void run(FunctionRef<void(int rank)> function) noexcept;

 private:
  void serve(int rank);
  void stop();

  const int num_ranks_;
  const pid_t process_ = ::getpid();
  const std::string name_;
  const std::chrono::nanoseconds spin_;               // before sleeping
  const FunctionRef<void(int)>* function_ = nullptr;  // null: the threads end; written before started_ advances
  Epoch started_;
  alignas(64) std::atomic<int> num_running_ = 0;  // ranks that have not returned, the caller's left out
  Epoch finished_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti
