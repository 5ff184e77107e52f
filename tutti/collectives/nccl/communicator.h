#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <string>

#include "tutti/collectives/collective.h"
#include "tutti/collectives/nccl/library.h"
#include "tutti/core/function_ref.h"

namespace tutti::nccl {

// A member among those whose GPUs NCCL moves bytes between. Nothing here waits but the end: a call is begun, and is
// taken over when is_settled(). For one thread.
class Communicator {
 public:
  // Begins to join the members that were given this id; is_settled() says when all have. The calling thread's current
  // device becomes the member's. Throws: what NCCL fails with.
  Communicator(const Library& library, const abi::UniqueId& id, int rank, int size);
  // Leaves, for which NCCL has two seconds; where it takes longer, and after a failure, it is aborted. Members of one
  // host leave together: who has several calls begin_to_leave() of all of them first.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Puts what the call moves behind all that the stream was given before. Requires: is_settled().
  void start(const Collective& call, abi::Stream stream);
  // Whether all that was begun is in NCCL's hands: its stream has it. Throws: what it has failed with meanwhile.
  bool is_settled() const;
  void begin_to_leave() noexcept;
  // Ends what is under way. Nothing can be started after it.
  void abort() noexcept;

 private:
  void start_sum(const Collective& call, abi::Stream stream);
  void exchange_parts(const Collective& call, abi::Stream stream);
  void leave();
  // Where a step of leaving fails, the member is aborted, and a warning says why.
  void give_up_unless(FunctionRef<void()> step) noexcept;
  void check(abi::Result result, const char* function) const { library_.check(result, function, communicator_); }

  const Library& library_;
  const int rank_, size_;
  abi::Communicator* communicator_ = nullptr;  // null: aborted
  bool is_leaving_ = false;
};

// Between two looks at what NCCL has not done yet, for which a thread has waited so long: a moment, or longer naps.
void rest_from_looking(std::chrono::steady_clock::duration waited);

// "GPU:1"
std::string gpu_name(c10::Device device);

// Whether NCCL adds this dtype: all that collectives can sum but int16.
bool is_summable(Dtype dtype);

// Throws unimplemented for a sum of a dtype that NCCL cannot add.
void require_summable(const Collective& call);

}  // namespace tutti::nccl
