#include "tutti/distribute/servers/served_training.h"

#include <utility>

#include "tutti/tensor/scope.h"

namespace tutti::servers {

ServedTraining::ServedTraining(std::shared_ptr<cluster::Cluster> cluster, const TaskLinksOptions& options,
                               Partitioner partitioner, std::optional<int64_t> largest_copy)
    : links_(std::move(cluster), options),
      state_(links_.num_servers(), std::move(partitioner), links_.role() == Role::worker ? largest_copy : std::nullopt),
      coordinator_(state_, links_.servers(), [this](int server) { renew_server_(server); }),
      worker_(state_, links_.servers(), [this](int server) { links_.renew_server(server); }),
      server_(state_, links_.position()) {}

void ServedTraining::open(Scope& scope) {
  if (state_.largest_copy()) scope.keep_elsewhere(*state_.largest_copy());
  NewVariables::open(scope);
}

void ServedTraining::settle() {
  for (const at::Tensor& variable : take_living()) {
    if (runs_functions_)
      throw Error(ErrorCode::failed_precondition,
                  "ParameterServerStrategy: a variable is made while functions run; make all of them in build, before "
                  "the coordinator's run, as every task does");
    state_.add_variable(variable);
  }
  for (ServedOptimizer& optimizer : std::exchange(built_, {})) state_.add_optimizer(std::move(optimizer));
  state_.settle_optimizers();
}

int ServedTraining::add(ServedOptimizer optimizer) {
  if (runs_functions_)
    throw Error(ErrorCode::failed_precondition,
                optimizer.name +
                    ": it is built while functions run; call build(variables) in the strategy's build, "
                    "before the coordinator's run, as every task does");
  built_.push_back(std::move(optimizer));
  return state_.num_optimizers() + static_cast<int>(built_.size()) - 1;
}

bool ServedTraining::is_elsewhere(const at::Tensor& variable) const {
  const auto number = state_.find(variable);
  return number && state_[*number].is_elsewhere;
}

void ServedTraining::push(int optimizer, std::span<const at::Tensor> gradients, std::span<const at::Tensor> variables,
                          double scale) {
  if (!runs_functions_)
    throw Error(ErrorCode::failed_precondition,
                "apply_gradients: this is a worker, which updates variables in the coordinator's functions alone");
  worker_.push(optimizer, gradients, variables, scale);
}

}  // namespace tutti::servers
