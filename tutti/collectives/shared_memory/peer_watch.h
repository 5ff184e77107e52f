#pragma once

#include <vector>

#include "tutti/core/file_descriptor.h"

namespace tutti {

// Tells which processes have ended, by their pidfd. For one thread.
class PeerWatch {
 public:
  explicit PeerWatch(int num_peers) : handles_(static_cast<size_t>(num_peers)) {}

  // Whether the process of peer `index` has ended; of pid 0, and of this process, never. The first call for a peer is
  // to come while that process lives, or has not been waited for: a number may be used again.
  bool has_ended(int index, int pid);

 private:
  std::vector<FileDescriptor> handles_;
};

}  // namespace tutti
