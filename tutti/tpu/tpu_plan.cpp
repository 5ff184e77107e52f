#include "tutti/tpu/tpu_plan.h"

#include <cstdio>

#include "tutti/core/str.h"
#include "tutti/tpu/planned_tpu.h"

namespace tutti::tpu {
namespace {

std::string percent(int64_t part, int64_t whole) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

}  // namespace

std::string TpuPlan::to_string() const {
  return str(name, " on each of ", replicas, " devices of ", topology, ", in bytes:\n  code         ", code,
             "\n  arguments    ", arguments, ": variables and the like ", state, ", the step's own ", inputs,
             " before padding\n  outputs      ", outputs, ", of which ", reused,
             " in the memory of arguments\n  temporaries  ", temporaries, "\n  together     ", total(),
             capacity > 0 ? str(" of ", capacity, ", ", percent(total(), capacity)) : "",
             "\nall-reduces between the devices: ", all_reduces, ", of ", all_reduce_bytes, " bytes\n");
}

TpuPlan plan_for_tpu(const ConcreteFunction& function, const std::string& topology, const TpuPlanOptions& options) {
  return PlannedTpu(topology, options.environment, options.root).plan(function.graph());
}

}  // namespace tutti::tpu
