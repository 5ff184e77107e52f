#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/coordinator/named_function.h"
#include "tutti/coordinator/per_worker_table.h"
#include "tutti/distribute/servers/served_training.h"

namespace tutti::coordinator {

// What a task has made for the coordinator to schedule: every task makes the same, in one order.
struct NamedFunctions {
  std::vector<NamedFunction> functions = {};
  std::shared_ptr<PerWorkerTable> values = std::make_shared<PerWorkerTable>();

  // A line for each, and for each variable and optimizer.
  std::vector<std::string> describe(const servers::ServedState& state) const;
};

// Throws: failed_precondition, naming the first line that differs.
void require_equal_definitions(const std::vector<std::string>& here, const std::vector<std::string>& there,
                               const std::string& task_here, const std::string& task_there);

}  // namespace tutti::coordinator
