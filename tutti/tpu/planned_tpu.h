#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tutti/cluster/environment.h"
#include "tutti/function/program_runner.h"
#include "tutti/pjrt/topology_description.h"
#include "tutti/tpu/tpu_plan.h"

namespace tutti::tpu {

// A TPU by name, for which libtpu compiles and on which nothing runs.
class PlannedTpu final : public ProgramCompiler {
 public:
  // `name`: libtpu's, "v5e:2x4". Throws: not_found without libtpu; libtpu's error for a name that it does not know.
  PlannedTpu(std::string name, const cluster::Environment& environment, const std::filesystem::path& root);

  const std::string& name() const { return name_; }
  const std::vector<pjrt::DeviceFacts>& devices() const { return devices_; }

  // `program` runs as many replicas as there are devices. Throws as plan_for_tpu.
  TpuPlan plan(const Program& program) const;

  // Plans the first program that it is given, writes the plan where it is wanted, and ends the process: with status 0,
  // or with 1 where the chip has no memory for it. Throws what else plan() does.
  [[noreturn]] std::unique_ptr<ProgramRunner> compile(std::shared_ptr<const Program> program) override;

 private:
  std::string name_;
  std::string report_;  // a file; empty: standard output
  pjrt::TopologyDescription described_;
  std::vector<pjrt::DeviceFacts> devices_;
};

}  // namespace tutti::tpu
