#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tutti/collectives/nccl/communicator.h"
#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"

namespace tutti::nccl {

// Buffers of one length, one in the memory of each device of a clique, that their sum takes the place of.
struct Pack {
  Dtype dtype = Dtype::float32;
  int64_t count = 0;
  std::vector<void*> buffers = {};  // in the order of the devices
};

// GPUs of this process that NCCL sums between. One thread speaks for all of them.
//
// Each device has a communicator, and takes part on the calling thread's current stream of it: behind all that the
// stream was given before, and before all that it is given later. Calls return when every device has every sum; so
// that a device that fails or does not come is an error, of a wait that has an end. Sums are as NCCL takes them
// (nccl_group.h). Cliques take turns: NCCL may not be used by two at once that share a GPU.
//
// Errors name the GPU that failed or did not come: as Communicator and Library::check; deadline_exceeded. Then all are
// aborted, and the clique can do nothing more; make another.
class Clique {
 public:
  // Joins. Requires: two different GPUs or more.
  Clique(const Library& library, std::vector<c10::Device> devices, std::chrono::milliseconds timeout);
  ~Clique();
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  // In one group of calls. Requires: a summable dtype and a count above 0 in each pack.
  void sum(std::span<const Pack> packs);

 private:
  using Turn = std::unique_lock<std::timed_mutex>;

  Turn wait_for_turn() const;
  void join();
  void start(size_t device, std::span<const Pack> packs);
  void group_calls(FunctionRef<void()> calls) const;
  void wait_for_all(FunctionRef<bool(size_t)> has_ended, FunctionRef<std::string()> failure);
  bool is_settled(size_t device) const;
  std::string describe_wait() const;
  // A step's error names the device.
  void naming(size_t device, FunctionRef<void()> step) const;
  // After an error all are aborted; then it goes on.
  void or_end(FunctionRef<void()> steps);
  [[noreturn]] void end(ErrorCode code, const std::string& failure);

  const Library& library_;
  const std::vector<c10::Device> devices_;
  const std::chrono::milliseconds timeout_;
  std::deque<Communicator> communicators_;  // by device; none: it has ended
  std::vector<c10::Event> came_, done_;     // by device: before and behind what is under way on its stream
  std::vector<c10::Stream> streams_;        // of the call that is under way
};

}  // namespace tutti::nccl
