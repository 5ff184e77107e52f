#pragma once

#include <chrono>
#include <optional>

#include "tutti/device/tune_threads.h"

namespace tutti {

// While it lives, gives LibTorch's operations on this thread as many threads as processors are free, at most as many as
// they had when it was made (OMP_NUM_THREADS, at::set_num_threads), and at least one; see tune_threads(). Nothing waits
// for it: each look() behind a period compares what all have used since the one before. A program that sets the number
// meanwhile has the last word: it stays as it is then.
class FreeThreads {
 public:
  explicit FreeThreads(std::chrono::milliseconds period = std::chrono::milliseconds(100));
  ~FreeThreads();  // they are as many as before
  FreeThreads(const FreeThreads&) = delete;
  FreeThreads& operator=(const FreeThreads&) = delete;

  // To be called often, between operations: before a period has passed it looks at the clock alone.
  void look();

 private:
  bool is_ours() const;

  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds period_;
  const int most_;
  int now_;
  Clock::time_point since_;
  tune_threads_internal::Usage usage_;
};

}  // namespace tutti
