#include "tutti/tpu/planned_tpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/find_plugin.h"
#include "tutti/tpu/fold_replicas.h"
#include "tutti/tpu/program_text.h"

namespace tutti::tpu {
namespace {

const pjrt::Plugin& libtpu(const cluster::Environment& environment, const std::filesystem::path& root) {
  const pjrt::PluginSearch search = pjrt::find_plugin(environment, root);
  if (search.found) return pjrt::Plugin::load(*search.found);
  throw Error(ErrorCode::not_found,
              str("a plan for a TPU: no libtpu.so was found (looked at ", str_list(search.looked_at),
                  "); `pip install libtpu` brings it, and TPU_LIBRARY_PATH names it"));
}

int replicas_of(const Program& program) {
  int replicas = 1;
  for (const Program::Call& call : program.calls) replicas = std::max(replicas, call.replica + 1);
  return replicas;
}

int64_t total_bytes(const stablehlo::Type& type) {
  return stablehlo::numel(type.dims) * static_cast<int64_t>(at::elementSize(type.dtype));
}

void count_all_reduces(const Program& folded, TpuPlan& plan) {
  for (const Program::Call& call : folded.calls) {
    if (call.op || call.name != "all_reduce") continue;
    const Geometry& geometry = folded.values[static_cast<size_t>(call.arguments[0].values[0])].geometry;
    ++plan.all_reduces;
    plan.all_reduce_bytes += total_bytes({geometry.dtype, {geometry.sizes.begin(), geometry.sizes.end()}});
  }
}

// The attribute of a device, if it is a number; else 0.
int64_t number_of(const pjrt::DeviceFacts& device, const char* attribute) {
  const auto found = device.attributes.find(attribute);
  const auto* number = found == device.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return number ? *number : 0;
}

// Bytes that a device has, as libtpu describes it; 0: it does not say. Of a v4 it says what the chip has, which its two
// cores share.
int64_t capacity_of(const std::vector<pjrt::DeviceFacts>& devices) {
  const bool shared = std::ranges::any_of(devices, [](const auto& one) { return number_of(one, "core_on_chip") > 0; });
  return number_of(devices.front(), "device_memory_bytes_limit") / (shared && devices[0].kind == "TPU v4" ? 2 : 1);
}

// libtpu's error tells what it needs and what there is; these are the parts that a program's author can change.
Error too_large(const Error& error, const TpuPlan& plan) {
  const bool by_state = plan.capacity > 0 && plan.state > plan.capacity / 2;
  return Error(
      ErrorCode::resource_exhausted,
      str(plan.name, " does not fit on ", plan.topology, ": ", error.what(), "\nEach of ", plan.replicas,
          " devices holds ", plan.state, " bytes of variables, optimizer state and other tensors from outside, and ",
          plan.inputs, " bytes of the step's arguments", plan.capacity > 0 ? str(", and has ", plan.capacity) : "",
          ".\nWays out: ",
          by_state ? "a smaller model, an optimizer with less state (SGD, Lion), variables of bfloat16"
                   : "smaller batches for each device (more devices, or a smaller global batch), activations of "
                     "bfloat16 (the dtype policy mixed_bfloat16), a smaller model",
          "; or a chip with more memory (v5p has six times a v5e's)"));
}

}  // namespace

PlannedTpu::PlannedTpu(std::string name, const cluster::Environment& environment, const std::filesystem::path& root)
    : name_(std::move(name)),
      report_(environment.has(kPlanReportVariable) ? environment.text(kPlanReportVariable) : ""),
      described_(libtpu(environment, root), name_),
      devices_(described_.devices()) {}

TpuPlan PlannedTpu::plan(const Program& program) const {
  const auto num_devices = static_cast<int>(devices_.size());
  TpuPlan plan{.name = program.name, .topology = name_, .replicas = replicas_of(program)};
  if (plan.replicas != num_devices)
    throw Error(
        ErrorCode::invalid_argument,
        str("a plan for a TPU: ", program.name, " runs ", plan.replicas, " replicas and ", name_, " has ", num_devices,
            " devices; record it under MirroredStrategy({.devices = configure_logical_cpus(", num_devices, ")})"));
  const FoldedProgram folded = fold_replicas(program, plan.replicas);
  const ProgramText text = write_program(folded.program, {.name = program.name, .replicas = plan.replicas});
  for (const ProgramText::Part& part : text.arguments) {
    const bool from_outside =
        part.buffer != ProgramText::kKey &&
        folded.program.buffers[static_cast<size_t>(part.buffer)].kind == Program::Buffer::Kind::captured;
    (from_outside ? plan.state : plan.inputs) += total_bytes(part.type);
  }
  plan.capacity = capacity_of(devices_);
  if (plan.replicas > 1) count_all_reduces(folded.program, plan);
  try {
    const pjrt::MemoryUse memory = described_.compile(text.module, {.replicas = plan.replicas}).memory_use();
    plan.code = memory.code;
    plan.arguments = memory.arguments;
    plan.outputs = memory.outputs;
    plan.temporaries = memory.temporaries;
    plan.reused = memory.aliased;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::resource_exhausted) throw too_large(error, plan);
    throw;
  }
  return plan;
}

std::unique_ptr<ProgramRunner> PlannedTpu::compile(std::shared_ptr<const Program> program) {
  std::string report;
  bool fits = true;
  try {
    report = plan(*program).to_string();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    report = str(error.what(), '\n');
    fits = false;
  }
  if (report_.empty()) {
    std::cout << report << std::flush;
  } else if (!(std::ofstream(report_) << report << std::flush)) {
    throw Error(ErrorCode::not_found, str(kPlanReportVariable, ": ", report_, " cannot be written"));
  }
  std::fflush(nullptr);
  std::_Exit(fits ? 0 : 1);  // the program's threads still run, and it has no numbers to go on with
}

}  // namespace tutti::tpu
