#pragma once

#include <atomic>
#include <exception>

#include "tutti/core/bytes.h"

namespace tutti::coordinator {

// One call of a function that a worker is to make, and what came of it. Called or cancelled once.
// Threads: any may wait.
class Closure {
 public:
  Closure() = default;
  virtual ~Closure() = default;
  Closure(const Closure&) = delete;
  Closure& operator=(const Closure&) = delete;

  // Makes the call. Returns what it threw.
  std::exception_ptr call(int worker);
  // Whoever waits gets `cancelled`.
  void cancel();

  // Of one that another process calls: its number, from 1 on, which it keeps; and what is sent there, until it has
  // ended: the function's number, and the arguments as text.
  int64_t number = 0;
  virtual void write_message(ByteWriter& writer) const;
  virtual size_t message_bytes() const { return 0; }
  // The call was made there: takes its result. Throws: data_loss for what is none; it is not ended then.
  void receive(ByteReader& result);
  // The call was made there, and threw this.
  void fail(std::exception_ptr error);

  bool ready() const { return ended_.load(std::memory_order_acquire) != 0; }
  // Returns when the call was made. Throws: what it threw; cancelled; failed_precondition in a worker's function.
  void wait() const;

 protected:
  // Keeps the result, drops the arguments.
  virtual void run(int worker) = 0;
  virtual void read_result(ByteReader& result);
  virtual void drop_arguments() = 0;

 private:
  void end(std::exception_ptr error);

  std::exception_ptr error_;
  std::atomic<int> ended_{0};
};

}  // namespace tutti::coordinator
