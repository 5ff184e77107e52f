#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tutti::tools {

struct TpuPlanRequest {
  std::vector<std::string> topologies = {};  // libtpu's names: "v5e:4x8"
  std::vector<std::string> command = {};     // a program that trains by a TPUStrategy, and its arguments
};

// `tutti plan --tpu`: runs the program once for each TPU, with the variables of tutti/tpu/tpu_plan.h, and prints the
// plans that it ends with. What the program prints goes to `err`. Status: 0; 1 where a chip has no memory for the step;
// 2 where a program gave no plan.
int plan_tpus(const TpuPlanRequest& request, std::ostream& out, std::ostream& err);

}  // namespace tutti::tools
