#include "tutti/distribute/servers/served_training.h"

#include <utility>

#include "tutti/tensor/mesh_tensor.h"
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

// Of the names that one memory has, each that is trained is a variable, or else the first: what a view was made of
// lives on with it.
bool ServedTraining::is_another_name(const at::Tensor& tensor, std::span<const at::Tensor> made) const {
  const auto is_trained = [](const at::Tensor& each) { return each.requires_grad() && each.is_leaf(); };
  if (is_trained(tensor) || !mesh_impl(tensor).has_aliases()) return false;
  bool is_earlier = true;
  for (const at::Tensor& other : made) {
    if (other.is_same(tensor))
      is_earlier = false;
    else if ((is_earlier || is_trained(other)) && mesh_impl(other).shares_memory_with(mesh_impl(tensor)))
      return true;
  }
  return !state_.find(tensor) && state_.find_memory_of(tensor);
}

void ServedTraining::settle() {
  const std::vector<at::Tensor> made = take_living();
  for (const at::Tensor& variable : made) {
    if (is_another_name(variable, made)) continue;
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
