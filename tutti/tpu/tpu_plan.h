#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tutti/cluster/environment.h"
#include "tutti/function/concrete_function.h"

namespace tutti::tpu {

// Of a program's environment: "v5e:4x8" has TPUStrategy be made for a TPU that need not be there, plan the first
// function that it would compile, and end the process with the plan. Nothing is trained. `tutti plan --tpu` sets it.
inline constexpr const char* kPlanVariable = "TUTTI_PLAN_TPU";
// A file for the plan; else it goes to standard output.
inline constexpr const char* kPlanReportVariable = "TUTTI_PLAN_REPORT";

// What a recorded function takes on each of some TPUs.
struct TpuPlan {
  std::string name;  // of the function
  std::string topology;
  int replicas;
  // Bytes of each device.
  int64_t code = 0, arguments = 0, outputs = 0, temporaries = 0;
  int64_t reused = 0;    // of the outputs, those in the memory of arguments: variables
  int64_t capacity = 0;  // that a device has; 0: libtpu does not say
  // Of the arguments, as the program has them; a TPU pads short axes.
  int64_t state = 0;   // variables, the optimizer's, and other tensors from outside
  int64_t inputs = 0;  // what the function is called with
  int all_reduces = 0;
  int64_t all_reduce_bytes = 0;  // that each device adds to the sums of a step

  // The most that is there at once, besides other functions' variables.
  int64_t total() const { return code + arguments + outputs - reused + temporaries; }
  // A line for each number.
  std::string to_string() const;
};

struct TpuPlanOptions {
  // Of this host, for tests: where libtpu is.
  cluster::Environment environment = cluster::Environment::of_process();
  std::filesystem::path root = "/";
};

// Compiles a recording for TPUs that need not be there, by libtpu, without running it. `topology`: libtpu's name,
// "v5e:2x4". The function runs its replicas under a strategy of as many devices: record it under MirroredStrategy on
// logical CPUs. Throws: not_found without libtpu; invalid_argument where replicas and devices are not equally many;
// unimplemented as TPUStrategy's functions; resource_exhausted for a program that the chip has no memory for, with what
// libtpu says of that and the ways out; libtpu's other errors.
TpuPlan plan_for_tpu(const ConcreteFunction& function, const std::string& topology, const TpuPlanOptions& options = {});

}  // namespace tutti::tpu
