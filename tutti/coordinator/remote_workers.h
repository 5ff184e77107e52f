#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tutti/coordinator/closure_queue.h"
#include "tutti/coordinator/named_functions.h"

namespace tutti::coordinator {

// The coordinator's side of workers and servers in processes of their own. A thread for each worker gives it closures
// of the queue, several at once, and takes what came of them. Those of a worker that is lost go back to the queue; what
// they had pushed counts once. Where no worker is left, or a server is lost, the queue is broken.
class RemoteWorkers {
 public:
  RemoteWorkers(servers::ServedTraining& training, const NamedFunctions& named, ClosureQueue& queue, size_t window);
  // The queue must have been stopped.
  ~RemoteWorkers();
  RemoteWorkers(const RemoteWorkers&) = delete;
  RemoteWorkers& operator=(const RemoteWorkers&) = delete;

  // A run begins when all have come to it, and have made the same; then the variables here are the servers' ones.
  // Throws: failed_precondition, naming the first thing that differs; unavailable; deadline_exceeded.
  void begin_run();
  // All return its result, or throw cancelled with the error's text.
  void end_run(const Bytes& result);
  void fail_run(const std::exception_ptr& error);

  // To be called before closures are put into the queue: takes to the servers what the program wrote.
  void before_functions();
  // To be called when none is under way: brings what they changed.
  void after_functions();

 private:
  void serve(int worker);
  void call(int worker, ClosureQueue::Batch& batch, size_t& num_ended);
  Bytes message_of(const ClosureQueue::Batch& batch);
  void end(Closure& closure, const Bytes& answer);
  void lose(int worker, const Error& error, ClosureQueue::Batch& batch, size_t num_ended);
  void forget(const Closure& closure);
  bool is_lost(int worker);
  void tell_all(const Bytes& message);

  servers::ServedTraining& training_;
  const NamedFunctions& named_;
  ClosureQueue& queue_;
  const size_t window_;
  std::mutex values_;  // of the variables here
  bool has_changed_ = false;
  std::mutex mutex_;
  servers::ServedTraining::Calls& calls_;
  std::set<int64_t> open_;  // numbers of closures that workers have, or had when they were lost
  std::atomic<int> num_left_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::coordinator
