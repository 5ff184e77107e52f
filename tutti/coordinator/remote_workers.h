#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tutti/coordinator/closure_queue.h"
#include "tutti/coordinator/named_functions.h"

namespace tutti::coordinator {

constexpr size_t kWindow = 8, kGreatestWindow = 1024;  // closures that a worker has at once, where nothing else is said

// The coordinator's side of workers and servers in processes of their own. A thread for each worker gives it closures
// of the queue, several at once, and takes what came of them. Those of a worker that is lost go back to the queue; what
// they had pushed counts once. One that comes again, in another process or over another connection, is taken in, and so
// is a server over another connection. Where no worker is left for the time after which a silent one is lost, or a
// server is lost, the queue is broken.
class RemoteWorkers {
 public:
  // `window`: how many closures a worker has at once; where it is none, 8, and up to 1024 of those that end in no time.
  RemoteWorkers(servers::ServedTraining& training, const NamedFunctions& named, ClosureQueue& queue,
                std::optional<size_t> window);
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
  void put_back(ClosureQueue::Batch& batch, size_t num_ended);
  void end(Closure& closure, servers::Kind kind, ByteReader& answer);
  void lose(int worker, const Error& error, ClosureQueue::Batch& batch, size_t num_ended);
  bool is_lost(int worker);
  bool await(int worker);
  bool take_in(int worker);
  void renew_server(int server);
  void tell_of_runs(servers::Link& link);
  std::vector<int> tell_of_begin(Bytes message);
  void tell_of_end(Bytes message);
  void tell_all(const std::shared_ptr<const Bytes>& message);

  servers::ServedTraining& training_;
  const NamedFunctions& named_;
  ClosureQueue& queue_;
  const size_t least_window_, greatest_window_;
  std::mutex values_;  // of the variables here
  std::atomic<bool> has_changed_ = false;
  std::mutex mutex_;
  servers::ServedTraining::Calls& calls_;
  std::shared_ptr<const Bytes> begin_;  // of the run that is under way
  std::map<int, int> coming_;           // workers that are being taken in, and how many begins they have to answer
  // The least number of the closures that a worker has, for each; and those that are to be called again.
  std::set<int64_t> open_;
  std::atomic<int> num_left_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::coordinator
