#include "tutti/device/free_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace tutti {

FreeThreads::FreeThreads(std::chrono::milliseconds period)
    : period_(period),
      most_(at::get_num_threads()),
      now_(most_),
      since_(Clock::now()),
      usage_(tune_threads_internal::Usage::now()) {}

FreeThreads::~FreeThreads() {
  if (is_ours() && now_ != most_) at::set_num_threads(most_);
}

bool FreeThreads::is_ours() const { return at::get_num_threads() == now_; }

void FreeThreads::look() {
  const Clock::time_point time = Clock::now();
  if (most_ == 1 || time - since_ < period_) return;
  const auto usage = tune_threads_internal::Usage::now();
  const int free = tune_threads_internal::free_processors(usage_, usage, std::chrono::duration<double>(time - since_));
  since_ = time, usage_ = usage;
  if (!is_ours()) return;
  const int threads = std::clamp(free, 1, most_);
  if (threads != now_) at::set_num_threads(now_ = threads);
}

}  // namespace tutti
