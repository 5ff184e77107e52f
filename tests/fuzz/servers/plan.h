// Programs for parameter servers, put together at random: what they make, and what they do to it in which order.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tutti::fuzz {

// What a worker's function may do, one after another.
enum class Move : uint8_t {
  train,  // zero_grad, backward, step
  zero,
  backward,
  step,
  clip,
  edit,     // writes to gradients
  penalty,  // a second backward
  held,     // a step, and then backward of a graph from before it
  freeze,   // a parameter, until the function ends
  read,
  look_up,
  views,  // that were made before
  count,  // writes to buffers
  average,
  fail,
  last
};

// What the chief may do between functions.
enum class Act : uint8_t {
  call,   // of a function; waits for its value
  burst,  // several calls that are under way together
  look,   // at all values
  write,
  rate,   // changes a learning rate
  train,  // by itself
  save,
  restore,
  end_run,
  fail_run,
  freeze,  // in all tasks, between runs
  last
};

// A move or an act, which the number decides the rest of.
template <class Kind>
struct Step {
  Kind kind;
  uint64_t number;
};

struct Function {
  bool in_replicas = true;
  std::vector<Step<Move>> moves;
  bool may_fail() const;
  bool writes() const;  // what others may read
};

struct OptimizerPlan {
  int kind = 0;
  uint64_t number = 0;  // decides its options
};

struct Plan {
  int dtype = 0;        // of kDtypes
  int partitioner = 0;  // of the program's
  bool sparse = false;  // the gradients of looked-up tables
  bool rows_alone = false;
  std::vector<OptimizerPlan> optimizers;
  std::vector<Function> functions;
  std::vector<Step<Act>> script;
};

// The program of that number, without some of its moves and acts, which are counted through. `num_kinds`: of
// optimizers.
Plan make_plan(uint64_t number, const std::set<int>& without, bool rows_alone, int num_kinds);
int num_steps(const Plan& plan);
std::string to_string(const Plan& plan);

}  // namespace tutti::fuzz
