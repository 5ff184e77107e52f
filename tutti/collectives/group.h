#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "tutti/collectives/collective.h"
#include "tutti/core/error.h"

namespace tutti {

// One member's handle on the processes (in tests: threads) that work together. It knows memory, counts and dtypes, not
// tensors; how bytes travel is the implementation's affair.
//
// All members make the same calls in the same order, one after the other: a member's calls come from one thread at a
// time. What they are about to do is compared before any data moves. No wait is without end: a call ends when it is
// done, when members make different calls, when one is lost or gives up, or at the group's deadline. After that the
// group is of no more use: this and every later call of each member throws the first cause.
//
// Sums in host memory are the same, bit for bit, on all members and in every run; 16-bit floating-point numbers are
// summed in float32 and rounded once.
class Group {
 public:
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }  // of this member, from 0
  int size() const { return size_; }  // members
  // The index of the GPU whose memory calls with BufferPlace::device name; none: the group moves host memory alone.
  virtual std::optional<int> device() const { return {}; }

  // Memory of at least so many bytes, on a page of its own, that the other members reach: what is summed in place
  // there, with BufferPlace::shared, need not be copied to travel. Between two calls it is this member's alone, and it
  // may outlive the group. Null where a group has no such memory, for all members alike. Any thread may call it.
  // Throws: resource_exhausted.
  virtual std::shared_ptr<std::byte> allocate_shared(size_t /*bytes*/) { return nullptr; }
  // Of the memory of this group that begins there: its bytes; 0 for any other memory.
  virtual size_t shared_bytes(const void* /*data*/) const { return 0; }

  // Does this member's part; when it returns, the output is written and the input may be reused.
  // Throws: invalid_argument, unimplemented (this call cannot be made; the group goes on), failed_precondition (members
  // make different calls; both are named), unavailable (a member is lost), cancelled (one has given up),
  // deadline_exceeded (names the members that have not come).
  void run(const Collective& call);

  // What is known by now to keep a call from ending: what has ended the group, or that a member which the call needs is
  // lost or has left. Waits for nothing and ends nothing. The thread that makes the calls asks.
  virtual std::optional<Error> obstacle_to(const Collective& /*call*/) { return {}; }

  // Gives up: members that wait, and those that come, throw cancelled with this member's rank and cause. Any thread may
  // call it.
  virtual void abort(const std::string& cause) = 0;

 protected:
  Group(int rank, int size) : rank_(rank), size_(size) {}

  // A call that was checked.
  virtual void execute(const Collective& call) = 0;

 private:
  void require_shared(const Collective& call) const;

  const int rank_, size_;
};

}  // namespace tutti
