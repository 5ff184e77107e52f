#pragma once

#include <memory>
#include <source_location>
#include <utility>

#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/servers/torch_updates.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/view.h"

namespace tutti {

// A LibTorch optimizer that replicas step together: step() in a replica's function waits for all replicas, reduces
// their gradients, and updates the variables once. Outside of run it is the optimizer as it is. An optimizer that calls
// a closure several times a step (LBFGS) steps outside of run, with run in its closure. Made in the build of a
// ParameterServerStrategy with a cluster, it hands a worker's gradients to the servers, which make the updates. A
// handle; owns the LibTorch optimizer.
template <class TorchOptimizer>
class Optimizer {
 public:
  // Throws: on servers, unimplemented for LBFGS and for classes that are not LibTorch's.
  explicit Optimizer(TorchOptimizer optimizer, std::source_location location = std::source_location::current())
      : optimizer_(std::make_shared<TorchOptimizer>(std::move(optimizer))), updates_(optimizer_, location) {}

  // In a replica's function, of this replica's gradients.
  void zero_grad() const { optimizer_->zero_grad(); }

  // Ranks: all. Throws: as ReplicaContext::merge_call; on servers as TorchUpdates::step.
  void step(std::source_location location = std::source_location::current()) const {
    if (!in_replica_function()) return updates_.step();
    get_replica_context(location).meet(
        "Optimizer::step", [&] { updates_.step(); }, key());
  }

  // Puts the reduced gradients into grad() of every replica, for who wants to clip or look at them there before step(),
  // which then takes them as they are. No backward() may come between the two. Ranks: all.
  void sum_gradients(std::source_location location = std::source_location::current()) const {
    if (!in_replica_function()) return;
    const auto share = [&] {
      for (auto& group : optimizer_->param_groups())
        for (auto& parameter : group.params()) share_gradient(parameter);
    };
    get_replica_context(location).meet("Optimizer::sum_gradients", share, key());
  }

  TorchOptimizer& get() const { return *optimizer_; }

 private:
  uint64_t key() const {
    return reinterpret_cast<uintptr_t>(optimizer_.get());
  }  // replicas at different optimizers do not meet

  std::shared_ptr<TorchOptimizer> optimizer_;
  TorchUpdates updates_;
};

}  // namespace tutti
