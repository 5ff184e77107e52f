#pragma once

#include <c10/core/AutogradState.h>

namespace tutti {

// Until the end of the block, backward passes run on the thread that asks for them. LibTorch has one thread for each
// GPU, which knows nothing of replicas and recordings: two replicas on one GPU that meet in their backward passes would
// wait there for ever.
class BackwardHere {
 public:
  BackwardHere() { state().set_multithreading_enabled(false); }
  ~BackwardHere() { state().set_multithreading_enabled(previous_); }
  BackwardHere(const BackwardHere&) = delete;
  BackwardHere& operator=(const BackwardHere&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool previous_ = state().get_multithreading_enabled();
};

}  // namespace tutti
