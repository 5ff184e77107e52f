#pragma once

#include <signal.h>

#include <vector>

#include "tutti/core/file_descriptor.h"

namespace tutti::tools {

// Holds the signals that ask a process to end (TERM, INT, HUP, QUIT), and CHLD, while it lives: they wait to be taken.
// For a process of one thread.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int file() const { return file_.number(); }  // to be polled for POLLIN
  // Those that have come since the last call.
  std::vector<int> take();
  // What the process had blocked before, and its children are to begin with.
  const sigset_t& old_mask() const { return old_mask_; }

 private:
  sigset_t old_mask_ = {};
  FileDescriptor file_;
};

}  // namespace tutti::tools
