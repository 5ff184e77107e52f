#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/coordinator/closure.h"

namespace tutti::coordinator {

// Closures between one or several threads that schedule them and workers that call them, in order.
//
// The first error of one cancels all that have not begun. It is thrown once, by the next put, join or done, when none
// is under way any more; from then on the queue is as new. TF: _CoordinatedClosureQueue.
class ClosureQueue {
 public:
  // `spin`: how long a worker looks for closures before it sleeps.
  ClosureQueue(size_t capacity, std::chrono::nanoseconds spin);

  // Waits for room. Throws: the first error.
  void put(std::shared_ptr<Closure> closure);
  // Waits until all have ended. Throws: the first error.
  void join();
  // Whether all have ended. Throws: the first error, after waiting for what is under way.
  bool done();
  // Cancels what has not begun, and waits for the rest. Errors are forgotten.
  void cancel();
  // Cancels what has not begun; take() returns false from now on.
  void stop();

  // For workers. Closures taken together, of which those that were cancelled meanwhile are not to be called.
  struct Batch {
    std::vector<std::shared_ptr<Closure>> closures;
    uint64_t generation = 0;
  };
  // Waits for closures and takes up to `most` of them, fewer where other workers would go empty, or where what is sent
  // of them is long. False: the end.
  bool take(Batch& batch, size_t most, size_t num_workers);
  bool is_cancelled(const Batch& batch) const {
    return generation_.load(std::memory_order_acquire) != batch.generation;
  }
  // Returns whether the end has come, when it has or that time is over.
  bool wait_for_end(std::chrono::milliseconds time);
  void fail(std::exception_ptr error);
  // All of the batch have ended or were cancelled.
  void finish(Batch& batch);
  // Those of the batch that are given, in their order, are to be taken again, before all that wait; the rest have
  // ended. Cancelled ones are cancelled.
  void put_back(Batch& batch, const std::vector<std::shared_ptr<Closure>>& again);
  // As fail; and the error is thrown by every call from now on.
  void break_with(std::exception_ptr error);

 private:
  using Closures = std::deque<std::shared_ptr<Closure>>;
  using Lock = std::unique_lock<std::mutex>;

  void throw_error(Lock& lock);
  Closures take_all();
  void insert_again(const std::vector<std::shared_ptr<Closure>>& again);

  const size_t capacity_;
  const std::chrono::nanoseconds spin_;
  std::mutex mutex_;
  std::condition_variable work_, room_, idle_, end_;
  Closures waiting_;
  size_t under_way_ = 0;
  int sleeping_ = 0;  // workers
  std::exception_ptr error_;
  std::exception_ptr broken_;  // for good
  bool stopped_ = false;
  std::atomic<bool> has_work_{false};  // or the end has come
  std::atomic<uint64_t> generation_{0};
};

}  // namespace tutti::coordinator
