// Runs a plan: on a parameter server strategy, in one process or in a cluster, or by LibTorch alone.
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <string>
#include <vector>

#include "plan.h"
#include "tutti/distribute/parameter_server_strategy.h"

namespace tutti::fuzz {

// A result, or a value that is looked at.
struct Number {
  std::string name;
  std::vector<double> values;
};

// What a strategy needs to know of plans: how variables are cut, which each plan says anew.
Partitioner partitioner_of_plans();
// Larger variables: of the tables alone.
constexpr int64_t kLargestCopyBytes = 200;

struct Place {
  ParameterServerStrategy* strategy = nullptr;  // null: LibTorch alone
  bool in_cluster = false;       // where LibTorch alone does what tasks do: each has gradients of its own, and what a
                                 // function that throws has written to buffers is not kept
  std::filesystem::path folder;  // for checkpoints
  // The worker of each call, in order: what the chief notes on a strategy, and LibTorch alone reads.
  std::vector<int>* workers = nullptr;
};
// Only the chief gets numbers. Throws: what a task sees of errors that no program should have.
std::vector<Number> run_program(const Plan& plan, const Place& place);

}  // namespace tutti::fuzz
