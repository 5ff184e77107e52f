#pragma once

#include <string>
#include <vector>

#include "tutti/function/program.h"
#include "tutti/stablehlo/builder.h"

namespace tutti::tpu {

struct ProgramTextOptions {
  std::string name = "function";  // of the module, and in errors
  stablehlo::Precision precision = stablehlo::precision_of_libtorch();
  int replicas = 1;  // devices that run it together, each with values of its own
};

// A recorded program as StableHLO, and what its arguments and results are. State that it writes is both: each step's
// result is the next step's argument, in the same memory.
struct ProgramText {
  struct Part {
    int buffer;            // of the program; kKey: the key of a run's random numbers, ui64 []
    stablehlo::Type type;  // dense, from the buffer's first element on
    int result = -1;       // of an argument: the result that is this buffer afterwards
  };
  struct Gradient {
    int leaf;    // of the program
    int result;  // -1: the leaf has none afterwards
  };

  static constexpr int kKey = -1;

  std::string module;
  std::vector<Part> arguments;         // the function's arguments, and what it reads of memory outside of it
  std::vector<stablehlo::Type> types;  // of the module's results
  std::vector<int> results;            // of the function's results the module's, or -1 for an undefined tensor
  std::vector<Gradient> gradients;     // that the function leaves in leaves
};

// Random numbers follow from the run's key, the call, and the replica that makes it; not from how many there are.
// Throws: unimplemented for a call without a lowering, with its name and where it is in the program; for numbers from a
// generator of the program's own; for native steps, and programs that run replicas, which fold_replicas makes ones of a
// single replica.
ProgramText write_program(const Program& program, const ProgramTextOptions& options = {});

}  // namespace tutti::tpu
