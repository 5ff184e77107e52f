#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/collectives/failure.h"
#include "tutti/core/function_ref.h"
#include "tutti/device/epoch.h"

namespace tutti {

// What one replica does where the replicas meet. Calls of equal name, key and type belong together.
struct Operation {
  const char* name = "";            // "all_reduce"
  std::source_location location{};  // the line of user code, for messages
  uint64_t key = 0;                 // tells operations of one name apart: a number that is the same in every replica
  void* payload = nullptr;          // what this replica brings
  uint64_t payload_type = 0;        // type_key of it
};

struct RendezvousOptions {
  // After this long a replica that still computes while others wait for it is named in a warning, once per meeting.
  std::chrono::milliseconds warn_after = std::chrono::seconds(60);
};

// Where the replicas of one run meet. The calls of each replica, all from one thread at a time, match
//     arrive* (finish | fail)
// and after the last replica's finish or fail, reset() starts the next run.
//
// No replica waits for ever. One replica that fails releases those that wait and those that arrive later. As soon as no
// replica computes any more (each waits, or has finished) and they do not all wait in one operation, all that wait get
// an error: that is decided, not timed. A released replica may catch its error and go on.
// No lock is held while user code runs, and a meeting allocates nothing.
class Rendezvous {
 public:
  using Action = FunctionRef<void(std::span<void* const> payloads)>;

  // Throws: invalid_argument unless num_replicas >= 1.
  explicit Rendezvous(int num_replicas, RendezvousOptions options = {});

  int num_replicas() const { return static_cast<int>(slots_.size()); }

  // Waits until every replica has arrived at this operation; the last one calls action once, with the payloads in
  // replica order, and then all return. What the action throws, every replica throws: the same exception.
  // Throws: failed_precondition (the replicas do not meet; names who waits in which operation, and where, and who has
  // finished; or this replica is in another operation or has ended), cancelled (another replica failed; names it).
  void arrive(int replica, const Operation& operation, Action action);

  // The replica's function has returned, or has thrown.
  void finish(int replica);
  void fail(int replica, std::exception_ptr exception);

  // The first failure since reset(). Call it when all replicas have ended.
  const Failure& first_failure() const { return first_failure_; }

  // Makes ready for the next run. All replicas must have ended.
  void reset();

 private:
  enum class State { computing, waiting, finished, failed };
  enum class Outcome { met, error, cancelled };
  struct Slot {
    State state = State::computing;
    const Operation* operation = nullptr;  // of a waiting replica
    Outcome outcome = Outcome::met;        // how the last wait ended; written before epoch_ advances
    std::exception_ptr error;              // with Outcome::error
  };
  using Lock = std::unique_lock<std::mutex>;

  Lock lock();
  Slot& computing_slot(int replica, const char* caller);
  void stop_computing(Slot& slot, State state);
  bool all_wait_in_one_operation() const;
  void meet(Lock& lock, Action action);
  bool refuse_if_nobody_computes(Lock& lock);
  void wait(Lock& lock);
  void release(Lock& lock, Outcome outcome, std::exception_ptr error = nullptr);
  void warn_of_missing(uint32_t epoch) noexcept;
  std::string describe_replicas() const;

  const RendezvousOptions options_;
  const std::chrono::nanoseconds spin_;  // before sleeping
  Epoch epoch_;                          // advances whenever those that wait are released: always all of them
  std::mutex mutex_;                     // guards all below
  std::vector<Slot> slots_;              // by replica
  std::vector<void*> payloads_;          // by replica
  int num_computing_;
  bool warned_ = false;              // of this meeting
  Failure first_failure_;            // once set, unchanged until reset()
  int first_failed_ = -1;            // the replica that failed first
  std::string failure_text_;         // what first_failure_ says
  std::exception_ptr common_error_;  // the last one that was given to several replicas
};

}  // namespace tutti
