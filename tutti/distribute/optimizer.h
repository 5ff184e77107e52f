#pragma once

#include <source_location>
#include <utility>

#include "tutti/distribute/replica_context.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/view.h"

namespace tutti {

// A LibTorch optimizer that replicas step together: step() in a replica's function waits for all replicas, reduces
// their gradients, and updates the variables once. Outside of run it is the optimizer as it is. An optimizer that calls
// a closure several times a step (LBFGS) steps outside of run, with run in its closure. Owns: the LibTorch optimizer.
template <class TorchOptimizer>
class Optimizer {
 public:
  explicit Optimizer(TorchOptimizer optimizer) : optimizer_(std::move(optimizer)) {}

  // In a replica's function, of this replica's gradients.
  void zero_grad() { optimizer_.zero_grad(); }

  // Ranks: all. Throws: as ReplicaContext::merge_call.
  void step(std::source_location location = std::source_location::current()) {
    if (!in_replica_function()) return static_cast<void>(optimizer_.step());
    get_replica_context(location).meet(
        "Optimizer::step", [&] { optimizer_.step(); }, key());
  }

  // Puts the reduced gradients into grad() of every replica, for who wants to clip or look at them there before step(),
  // which then takes them as they are. No backward() may come between the two. Ranks: all.
  void sum_gradients(std::source_location location = std::source_location::current()) {
    if (!in_replica_function()) return;
    const auto share = [&] {
      for (auto& group : optimizer_.param_groups())
        for (auto& parameter : group.params()) share_gradient(parameter);
    };
    get_replica_context(location).meet("Optimizer::sum_gradients", share, key());
  }

  TorchOptimizer& get() { return optimizer_; }

 private:
  uint64_t key() const { return reinterpret_cast<uintptr_t>(this); }  // replicas at different optimizers do not meet

  TorchOptimizer optimizer_;
};

}  // namespace tutti
