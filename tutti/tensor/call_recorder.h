#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "tutti/core/function_ref.h"

namespace c10 {
class OperatorHandle;
}

namespace tutti {

using Tensor = at::Tensor;
using Stack = torch::jit::Stack;
// Gets the tensors that the step was declared with: others of the same shapes when the recording is replayed.
using HostStep = std::function<void(at::ArrayRef<Tensor> inputs)>;
class Error;
// Calls a function on several threads at once, or once.
using ParallelCall = std::function<void(FunctionRef<void()>)>;
class CommunicationCounter;
class MeshTensorImpl;
struct OperatorInfo;

// Sees every call on plain tensors that a thread makes below autograd: of the forward pass, the backward pass and the
// optimizer alike, and those that make tensors.
class CallRecorder {
 public:
  virtual ~CallRecorder() = default;

  // Makes the call, whose arguments are on the stack, and leaves its results there.
  virtual void call(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack) = 0;
  // See tutti::host_step.
  virtual void host_step(const char* name, at::ArrayRef<Tensor> inputs, at::ArrayRef<Tensor> written,
                         HostStep step) = 0;

  // The thread, in global view, is about to read the value of a mesh tensor, or to write it.
  virtual void global_view(MeshTensorImpl& tensor, bool writes) = 0;
  // The thread, in a replica's view, asks what the replica sees of a mesh tensor, whose value is in the component
  // `global`; `look` makes that.
  virtual Tensor replica_view(const Tensor& tensor, const Tensor& global, FunctionRef<Tensor()> look) = 0;
  // The thread makes the data() of a tensor, a mesh tensor in global view: what calls do with that, they do with this
  // tensor, as optimizers do with parameters and their gradients.
  virtual void gives_data(const Tensor& tensor) = 0;
  // See tutti::communicated.
  virtual void communicates(CommunicationCounter& counter, int64_t bytes) = 0;
  // Whether a recorded call wrote to the memory of the tensor.
  virtual bool has_written(const Tensor& tensor) const = 0;

  // Whether the thread is in a part of the function that a call of the program runs, or does not: a branch. Replicas
  // can neither run nor meet in it.
  virtual bool in_part() const = 0;
  // Replicas are about to run, on threads that `on_replicas` can use too.
  virtual void replicas_run(ParallelCall on_replicas) = 0;

  // To be called before the function does what cannot be recorded. Throws `why`, unless whoever records wants the
  // function to run in any case: then the recording ends here, and the function goes on without it.
  virtual void refuse(const Error& why) = 0;
  // Whether the recording ended that way: then calls are made as if there were no recorder.
  virtual bool is_over() const = 0;

  // Of the calling thread; null if nothing is recorded.
  static CallRecorder* current() { return current_ && !current_->is_over() ? current_ : nullptr; }
  // Puts another in its place, and returns it.
  static CallRecorder* exchange_current(CallRecorder* recorder) { return std::exchange(current_, recorder); }
  // The recording is over: from now on the thread's calls go where they would without it.
  static void step_aside();

 protected:
  // Make the call as a thread that does not record would: what it calls itself is no call of the program.
  static void run_below(const c10::OperatorHandle& op, Stack& stack);
  static void run_below(const HostStep& step, at::ArrayRef<Tensor> inputs);

 private:
  static constinit inline thread_local CallRecorder* current_ = nullptr;  // asked for at each read of a mesh tensor
};

// Runs C++ code that works on the memory of tensors itself, or with numbers that change from call to call, and has a
// recording run it again in each replay: an optimizer's fused loop with its count of steps. It reads `inputs`, and
// writes no other tensors than `written`. Both may be mesh tensors.
void host_step(const char* name, at::ArrayRef<Tensor> inputs, at::ArrayRef<Tensor> written, HostStep step);

// Counts a communication that the calling thread makes, and has a recording count it in each replay.
void communicated(CommunicationCounter& counter, int64_t bytes);

// To be called by C++ code of the library that reads the memory of tensors itself, and gives what a replay would not
// renew: no call tells a recording of it, so the recording refuses it. The error names `who`.
void reads_memory(const char* who);

// The calling thread's calls go to the recorder until the end of the block. Several threads may share a recorder, one
// at a time.
class RecordGuard {
 public:
  explicit RecordGuard(CallRecorder& recorder);
  ~RecordGuard();
  RecordGuard(const RecordGuard&) = delete;
  RecordGuard& operator=(const RecordGuard&) = delete;

 private:
  CallRecorder* previous_;
  c10::impl::LocalDispatchKeySet before_;
};

// What the thread does until the end of the block is no part of a recording: it makes what stays, such as variables.
class UnrecordedGuard {
 public:
  UnrecordedGuard();
  ~UnrecordedGuard();
  UnrecordedGuard(const UnrecordedGuard&) = delete;
  UnrecordedGuard& operator=(const UnrecordedGuard&) = delete;

 private:
  CallRecorder* recorder_;
  c10::impl::LocalDispatchKeySet before_;
};

// Set on a thread that records. It is a backend key below that of mesh tensors, so that these keep their own kernel,
// and above the CPU's; LibTorch's formulas of gradients stand above it.
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::PrivateUse2;

// Until the end of the block the thread's keys are as they are when nothing is recorded; those in `excluded` are off.
class NotRecorded {
 public:
  explicit NotRecorded(c10::DispatchKeySet excluded = {})
      : keys_(without_recording(now().included_), now().excluded_ | excluded) {}

  static c10::DispatchKeySet without_recording(c10::DispatchKeySet keys);

 private:
  static c10::impl::LocalDispatchKeySet now() { return c10::impl::tls_local_dispatch_key_set(); }

  c10::impl::ForceDispatchKeyGuard keys_;
};

// The front key's part in recording: calls that make tensors, which LibTorch sends to a device past the record key.
void record_in_front(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack);

}  // namespace tutti
