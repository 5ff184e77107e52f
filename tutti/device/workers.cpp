#include "tutti/device/workers.h"

#include <pthread.h>

#include <system_error>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/spin.h"

namespace tutti {

Workers::Workers(int num_ranks, std::string name)
    : num_ranks_(num_ranks), name_(std::move(name)), spin_(spin_limit(num_ranks)) {
  if (num_ranks < 1)
    throw Error(ErrorCode::invalid_argument, str("Workers: ", num_ranks, " ranks; at least 1 is needed"));
  try {
    for (int rank = 1; rank < num_ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::unavailable, str("Workers: thread ", threads_.size() + 1, " of ", num_ranks - 1,
                                            " could not be started: ", error.what()));
  }
}

Workers::~Workers() { stop(); }

void Workers::run(FunctionRef<void(int)> function) noexcept {
  if (num_ranks_ == 1) return function(0);
  function_ = &function;
  num_running_.store(num_ranks_ - 1, std::memory_order_relaxed);
  const uint32_t before = finished_.value();
  started_.advance();
  started_.wake();
  function(0);
  finished_.wait_past(before, spin_);
}

void Workers::serve(int rank) {
  pthread_setname_np(pthread_self(), str(name_.substr(0, 10), '/', rank).substr(0, 15).c_str());
  for (uint32_t seen = 0;; ++seen) {  // every run advances started_ by one, and none is missed
    started_.wait_past(seen, spin_);
    if (!function_) return;
    (*function_)(rank);
    if (num_running_.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    finished_.advance();
    finished_.wake();
  }
}

void Workers::stop() {
  if (lost()) {
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  function_ = nullptr;
  started_.advance();
  started_.wake();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace tutti
