#include "tutti/tools/signal_watch.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::tools {

SignalWatch::SignalWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &old_mask_);
  file_ = FileDescriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!file_) throw Error(ErrorCode::resource_exhausted, str("signalfd: ", std::strerror(errno)));
}

SignalWatch::~SignalWatch() { sigprocmask(SIG_SETMASK, &old_mask_, nullptr); }

std::vector<int> SignalWatch::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (read(file_.number(), &info, sizeof info) == sizeof info) signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

}  // namespace tutti::tools
