#include "tutti/checkpoint/parallel.h"

#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::checkpoint {

void for_each_item(size_t num_items, int num_threads, FunctionRef<void(size_t)> work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first_error;
  size_t failed = std::numeric_limits<size_t>::max();
  const auto run = [&] {
    for (size_t item; (item = next.fetch_add(1)) < num_items;) {
      try {
        work(item);
      } catch (...) {
        next = num_items;
        const std::lock_guard lock(mutex);
        if (item < failed) failed = item, first_error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < num_threads; ++i) threads.emplace_back(run);
    run();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace tutti::checkpoint
