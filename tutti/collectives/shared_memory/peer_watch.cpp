#include "tutti/collectives/shared_memory/peer_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace tutti {

bool PeerWatch::has_ended(int index, int pid) {
  if (pid == 0 || pid == getpid()) return false;
  FileDescriptor& handle = handles_[static_cast<size_t>(index)];
  if (!handle) handle = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!handle) return kill(pid, 0) != 0 && errno == ESRCH;  // it is gone, or the system has no pidfds
  pollfd state{.fd = handle.number(), .events = POLLIN, .revents = 0};
  return poll(&state, 1, 0) == 1;
}

}  // namespace tutti
