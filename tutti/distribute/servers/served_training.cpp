#include "tutti/distribute/servers/served_training.h"

#include <utility>

namespace tutti::servers {

ServedTraining::ServedTraining(std::shared_ptr<cluster::Cluster> cluster, const TaskLinksOptions& options,
                               Partitioner partitioner)
    : links_(std::move(cluster), options),
      state_(links_.num_servers(), std::move(partitioner)),
      coordinator_(state_, links_.servers()),
      worker_(state_, links_.servers(), [this](int server) { links_.renew_server(server); }),
      server_(state_, links_.position()) {}

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

void ServedTraining::push(int optimizer, std::span<const at::Tensor> gradients, std::span<const at::Tensor> variables,
                          double scale) {
  if (!runs_functions_)
    throw Error(ErrorCode::failed_precondition,
                "apply_gradients: this is a worker, which updates variables in the coordinator's functions alone");
  worker_.push(optimizer, gradients, variables, scale);
}

}  // namespace tutti::servers
