#pragma once

#include <string>

#include "tutti/core/str.h"

namespace tutti::cluster {

// One process of a cluster: its job, and its number there. Strategies know the jobs chief, worker, ps and evaluator.
struct Task {
  std::string type = "worker";
  int index = 0;
  bool operator==(const Task&) const = default;
};

// "worker 2".
inline std::string to_string(const Task& task) { return str(task.type, ' ', task.index); }

}  // namespace tutti::cluster
