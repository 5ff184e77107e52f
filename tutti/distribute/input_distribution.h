#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#include "tutti/data/dataset.h"
#include "tutti/data/distributed_dataset.h"
#include "tutti/data/distributed_loader.h"
#include "tutti/data/distributed_tensors.h"
#include "tutti/data/input_context.h"
#include "tutti/data/input_options.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/tensor/view.h"

namespace tutti {

template <class T>
inline constexpr bool is_dataset = false;
template <class T>
inline constexpr bool is_dataset<data::Dataset<T>> = true;

class Processes;

// What a loader is: a range of batches, and no Dataset.
template <class Range>
concept BatchRange = !is_dataset<Range> && requires(Range & range) {
  range.begin();
  range.end();
};

// How a strategy's replicas come by their input. All throw failed_precondition in a replica's function.
class InputDistribution {
 public:
  virtual ~InputDistribution() = default;

  // Of all processes.
  virtual int64_t num_replicas_in_sync() const = 0;
  // The processes that train together; null for one alone. For the library's own use.
  virtual const std::shared_ptr<Processes>& processes() const;
  // Of this process, and the number of the first of them.
  int num_local_replicas() const;
  int first_local_replica() const;

  // Divides batches among the replicas: of a dataset; of a torch::data loader or any range of batches, which must
  // outlive what is returned; of tensors in memory, cut along axis 0. With several processes each gets the parts of its
  // replicas: of a dataset as its AutoShardPolicy says, of batches and tensors, which are the same in all, as they are
  // cut for all replicas. Steps of a dataset are then agreed on by all processes. TF: experimental_distribute_dataset.
  // Throws: as DistributedDataset and check_input_options.
  template <class T>
  data::DistributedDataset<T> distribute(const data::Dataset<T>& dataset,
                                         const data::InputOptions& options = {}) const {
    require_cross_replica("distribute");
    data::check_input_options("distribute", options, /*per_replica=*/false);
    return data::DistributedDataset<T>(dataset, num_local_replicas(), placer_for(options),
                                       options.per_replica_buffer_size, processes());
  }
  PerReplica<Tensor> distribute(const Tensor& value) const {
    require_cross_replica("distribute");
    return data::distribute_tensors(value, local_replicas(), placer());
  }
  template <class... Ts>
  PerReplica<std::tuple<Ts...>> distribute(const std::tuple<Ts...>& values) const {
    require_cross_replica("distribute");
    return data::distribute_tensors(values, local_replicas(), placer());
  }
  template <BatchRange Loader>
  data::DistributedLoader<Loader> distribute(Loader& loader) const {
    require_cross_replica("distribute");
    return data::DistributedLoader<Loader>(loader, local_replicas(), placer());
  }

  // Calls f(InputContext) for each input pipeline of this process, on this thread and outside of scopes: it makes its
  // Dataset, batched for one replica, which is neither divided nor cut any more. There is one pipeline for each
  // process, or one for each replica; every replica takes a whole element in each step. TF:
  // distribute_datasets_from_function. Throws: what f throws; as check_input_options.
  template <class F>
  auto distribute_datasets_from_function(const F& f, const data::InputOptions& options = {}) const;

 protected:
  // Puts a tensor where a replica computes.
  virtual data::Placer placer() const = 0;
  // Whether InputReplicationMode::per_replica is there.
  virtual bool has_pipelines_of_replicas() const { return false; }
  // Throws failed_precondition in the function of a replica, or under another strategy.
  virtual void require_cross_replica(const char* call) const = 0;
  int num_processes() const { return static_cast<int>(num_replicas_in_sync()) / num_local_replicas(); }
  data::LocalReplicas local_replicas() const {
    return {num_local_replicas(), first_local_replica(), static_cast<int>(num_replicas_in_sync())};
  }

 private:
  data::Placer placer_for(const data::InputOptions& options) const {
    return options.fetch_to_device || options.place_dataset_on_device ? placer() : data::Placer();
  }
};

template <class F>
auto InputDistribution::distribute_datasets_from_function(const F& f, const data::InputOptions& options) const {
  constexpr auto* call = "distribute_datasets_from_function";
  require_cross_replica(call);
  data::check_input_options(call, options, has_pipelines_of_replicas());
  const bool of_replicas = options.replication_mode == data::InputReplicationMode::per_replica;
  const int num_here = of_replicas ? num_local_replicas() : 1;
  const int num_pipelines = of_replicas ? num_here : num_processes();
  const int first = of_replicas ? 0 : first_local_replica() / num_local_replicas();
  const ThreadViewGuard outside({});
  std::vector<std::decay_t<std::invoke_result_t<const F&, data::InputContext>>> pipelines;
  for (int i = 0; i < num_here; ++i)
    pipelines.push_back(f(data::InputContext{.num_input_pipelines = num_pipelines,
                                             .input_pipeline_id = first + i,
                                             .num_replicas_in_sync = static_cast<int>(num_replicas_in_sync())}));
  return data::DistributedDataset(pipelines, num_local_replicas(), placer_for(options), options.per_replica_buffer_size,
                                  processes());
}

}  // namespace tutti
