#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>

#include "tutti/tensor/looked_up_rows.h"
#include "tutti/tensor/view.h"

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// Where variables lie in other processes: brings what an op is about to read, in every view. A process is one worker,
// whose functions run one after the other, so there is one of these at a time for all its threads.
class RemoteReads {
 public:
  virtual ~RemoteReads() = default;

  // Any thread that runs an op. What is no variable of this kind is passed over.
  virtual void read(const at::Tensor& tensor) = 0;
  // The rows that are numbered so, on the CPU. Of a table that this process has a copy of they are brought into that,
  // and nothing is returned.
  virtual std::optional<LookedUpRows> read_rows(const at::Tensor& table, const at::Tensor& ids) = 0;

  // Null outside of a worker's functions.
  static RemoteReads* current();
};

// While one lives, ops tell `reads` what they read: on the threads of replicas, and on this one.
class RemoteReadsGuard {
 public:
  explicit RemoteReadsGuard(RemoteReads& reads);
  RemoteReadsGuard(const RemoteReadsGuard&) = delete;
  RemoteReadsGuard& operator=(const RemoteReadsGuard&) = delete;

 private:
  struct Set {
    explicit Set(RemoteReads& reads);
    ~Set();
  };
  Set set_;
  ThreadViewGuard view_;  // entered anew: ops of global view pass by the front key too
};

// local(tensor), for a caller that does not read the tensor, or that has told of its read.
at::Tensor local_unread(const at::Tensor& tensor);

// Tells of all that a call reads; the arguments are the last ones of the stack. Returns whether rows that were brought
// took the place of a table among them.
bool tell_reads(RemoteReads& reads, const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace tutti
