#include "tutti/coordinator/closure_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/spin.h"

namespace tutti::coordinator {

namespace {

constexpr size_t kFewTogether = 8, kManyBytes = size_t{1} << 20;  // more closures than a few only of fewer bytes

}  // namespace

ClosureQueue::ClosureQueue(size_t capacity, std::chrono::nanoseconds spin) : capacity_(capacity), spin_(spin) {
  if (capacity == 0) throw Error(ErrorCode::invalid_argument, "ClusterCoordinator: the queue holds no closure");
}

// Throws the error that waits for it, once nothing is under way.
void ClosureQueue::throw_error(Lock& lock) {
  if (!error_ && !broken_) return;
  idle_.wait(lock, [&] { return under_way_ == 0; });
  if (broken_) std::rethrow_exception(broken_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));  // else another thread has thrown it
}

ClosureQueue::Closures ClosureQueue::take_all() {
  has_work_.store(stopped_, std::memory_order_relaxed);
  room_.notify_all();
  return std::exchange(waiting_, {});
}

void ClosureQueue::put(std::shared_ptr<Closure> closure) {
  Lock lock(mutex_);
  throw_error(lock);
  while (waiting_.size() >= capacity_) {
    room_.wait(lock, [&] { return waiting_.size() < capacity_ || error_ || broken_; });
    throw_error(lock);
  }
  waiting_.push_back(std::move(closure));
  has_work_.store(true, std::memory_order_release);
  const bool wake = sleeping_ > 0;
  lock.unlock();
  if (wake) work_.notify_one();
}

void ClosureQueue::join() {
  Lock lock(mutex_);
  idle_.wait(lock, [&] { return under_way_ == 0 && waiting_.empty(); });
  throw_error(lock);
}

bool ClosureQueue::done() {
  Lock lock(mutex_);
  throw_error(lock);
  return under_way_ == 0 && waiting_.empty();
}

void ClosureQueue::cancel() {
  Lock lock(mutex_);
  generation_.fetch_add(1, std::memory_order_release);
  const Closures cancelled = take_all();
  lock.unlock();
  for (const auto& closure : cancelled) closure->cancel();
  lock.lock();
  idle_.wait(lock, [&] { return under_way_ == 0; });
  error_ = nullptr;
}

void ClosureQueue::stop() {
  Lock lock(mutex_);
  stopped_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  const Closures cancelled = take_all();
  work_.notify_all();
  end_.notify_all();
  lock.unlock();
  for (const auto& closure : cancelled) closure->cancel();
}

bool ClosureQueue::wait_for_end(std::chrono::milliseconds time) {
  Lock lock(mutex_);
  return end_.wait_for(lock, time, [&] { return stopped_; });
}

bool ClosureQueue::take(Batch& batch, size_t most, size_t num_workers) {
  spin_until([&] { return has_work_.load(std::memory_order_relaxed); }, spin_);
  Lock lock(mutex_);
  ++sleeping_;
  work_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
  --sleeping_;
  if (stopped_) return false;
  const size_t count = std::clamp(waiting_.size() / (2 * num_workers), size_t{1}, most);
  const bool was_full = waiting_.size() >= capacity_;
  size_t bytes = 0;
  while (batch.closures.size() < count && (batch.closures.size() < kFewTogether || bytes < kManyBytes)) {
    bytes += waiting_.front()->message_bytes();
    batch.closures.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  batch.generation = generation_.load(std::memory_order_relaxed);
  under_way_ += batch.closures.size();
  has_work_.store(!waiting_.empty(), std::memory_order_relaxed);
  if (was_full) room_.notify_all();
  return true;
}

void ClosureQueue::fail(std::exception_ptr error) {
  Closures cancelled;
  {
    const Lock lock(mutex_);
    if (!error_) error_ = std::move(error);
    generation_.fetch_add(1, std::memory_order_release);
    cancelled = take_all();
    if (under_way_ == 0) idle_.notify_all();
  }
  for (const auto& closure : cancelled) closure->cancel();
}

void ClosureQueue::finish(Batch& batch) {
  const size_t count = batch.closures.size();
  batch.closures.clear();  // what they keep goes while nobody waits for the lock
  const Lock lock(mutex_);
  under_way_ -= count;
  if (under_way_ == 0) idle_.notify_all();
}

// With the lock. Those that were handed out before are called in that order, whichever worker gives them back first;
// the others, without a number, are behind them.
void ClosureQueue::insert_again(const std::vector<std::shared_ptr<Closure>>& again) {
  auto at = waiting_.begin();
  for (const auto& closure : again) {
    while (at != waiting_.end() && (*at)->number != 0 && (*at)->number < closure->number) ++at;
    at = std::next(waiting_.insert(at, closure));
  }
}

void ClosureQueue::put_back(Batch& batch, const std::vector<std::shared_ptr<Closure>>& again) {
  bool is_over;
  {
    const Lock lock(mutex_);
    is_over = stopped_ || is_cancelled(batch);
    if (!is_over) {
      insert_again(again);
      has_work_.store(!waiting_.empty(), std::memory_order_release);
    }
  }
  work_.notify_all();
  if (is_over)
    for (const auto& closure : again) closure->cancel();
  finish(batch);
}

void ClosureQueue::break_with(std::exception_ptr error) {
  {
    const Lock lock(mutex_);
    if (!broken_) broken_ = error;
  }
  fail(std::move(error));
}

}  // namespace tutti::coordinator
