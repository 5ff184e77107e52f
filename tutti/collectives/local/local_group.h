#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "tutti/collectives/group.h"

namespace tutti {

struct LocalGroupOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(300);  // how long a member waits for the others in one call
};

// The members of a group whose members are threads of this process: one handle for each. All of them do the work of a
// call together, and nothing is copied that need not be. A handle that is destroyed while another member waits for it,
// or before one comes to wait, is a lost member.
std::vector<std::unique_ptr<Group>> local_groups(int size, const LocalGroupOptions& options = {});

}  // namespace tutti
