#pragma once

#include <deque>
#include <mutex>

#include "tutti/tensor/view.h"

namespace tutti {

// State of user code that each replica needs for itself: members that forward() assigns, caches, counters. In a
// replica's function operator* is that replica's value, elsewhere the value of global view; each starts as T().
// Threads: all replicas at once; a value is its replica's alone.
template <class T>
class PerReplicaSlot {
 public:
  T& operator*() { return of(ThreadView::current().replica); }
  T* operator->() { return &**this; }

  // The value of a replica; -1 for that of global view. References stay valid.
  T& of(int replica) {
    const auto index = static_cast<size_t>(replica) + 1;
    const std::lock_guard lock(mutex_);
    while (values_.size() <= index) values_.emplace_back();
    return values_[index];
  }

  // The values made so far, that of global view first; while no replica runs.
  std::deque<T>& values() { return values_; }

 private:
  std::mutex mutex_;
  std::deque<T> values_;  // guarded by mutex_; global view first
};

}  // namespace tutti
