#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace tutti {

// What has come of a gradient: dense, or sparse and coalesced, of those rows of a table that have come.
struct ServedGradient {
  at::Tensor value;
  bool is_sparse = false;  // so is the program's own; else that is zero in rows that have not come
};

// An optimizer as the servers see it, which make its updates. Every task has made it, and knows it by its number.
struct ServedOptimizer {
  std::string name;
  std::source_location location;  // where it was made
  std::vector<at::Tensor> variables;
  std::vector<std::vector<at::Tensor>> slots;  // of each variable; of its shape, or the variable is never cut
  bool needs_whole_variables = false;          // an update looks at more than one element
  bool needs_all_variables = false;            // and at those of all variables
  bool counts_updates = false;                 // each is made on all servers, also where they have no part of it
  bool changes_all_slots = false;              // also of variables that have no gradient
  bool changes_all_variables = false;          // those variables, too
  std::function<bool()> is_alive = [] { return true; };  // whether the program still has it
  std::function<void()> settle = [] {};                  // brings into the slots what the program did to its state
  // In global view; without variables where this server has no part. Like the next ones they throw failed_precondition
  // once the optimizer is gone.
  std::function<void(std::span<const ServedGradient> gradients, std::span<const at::Tensor> variables, double scale)>
      apply;
  // Whether an update by that gradient leaves all rows but its own as they are, of the variable and of what of its
  // slots has as many rows. To be asked before the update.
  std::function<bool(const ServedGradient& gradient, const at::Tensor& variable)> changes_rows_alone =
      [](const ServedGradient&, const at::Tensor&) { return false; };
  // The rest of its state: options, and counts of steps, which grow. A server that has no part in some updates has
  // smaller ones.
  std::function<std::vector<double>()> numbers;
  std::function<void(std::span<const double>)> set_numbers;
};

// Where the updates of a ParameterServerStrategy are made that has a cluster. Threads: any, one at a time.
class ServedUpdates {
 public:
  virtual ~ServedUpdates() = default;

  // All tasks call it, in one order, before they run functions. Returns the optimizer's number. Throws: unimplemented
  // for one whose updates need what lies on several servers.
  virtual int add(ServedOptimizer optimizer) = 0;
  // Whether this task hands gradients to the servers, instead of updating variables: it is a worker.
  virtual bool pushes() const = 0;
  // Whether this task has no copy of a variable: its gradients are sparse then, whatever the program asked for.
  virtual bool is_elsewhere(const at::Tensor& variable) const = 0;
  // The servers make the update, once however often the function is called again, and have made it when this returns.
  // Throws: what they throw; unavailable, naming a server that is lost.
  virtual void push(int optimizer, std::span<const at::Tensor> gradients, std::span<const at::Tensor> variables,
                    double scale) = 0;
};

}  // namespace tutti
