#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tutti/distribute/new_variables.h"
#include "tutti/distribute/servers/coordinator_copies.h"
#include "tutti/distribute/servers/served_state.h"
#include "tutti/distribute/servers/served_updates.h"
#include "tutti/distribute/servers/task_links.h"
#include "tutti/distribute/servers/variable_server.h"
#include "tutti/distribute/servers/worker_copies.h"

namespace tutti::servers {

// A task's part in a training with parameter servers: its links, and what it has of the state that servers keep.
class ServedTraining final : public NewVariables, public ServedUpdates {
 public:
  // `largest_copy`: of a variable that a worker has a copy of, in bytes.
  ServedTraining(std::shared_ptr<cluster::Cluster> cluster, const TaskLinksOptions& options, Partitioner partitioner,
                 std::optional<int64_t> largest_copy);

  const TaskLinks& links() const { return links_; }
  // As TaskLinks's.
  bool renew_worker(int position) { return links_.renew_worker(position); }
  void renew_coordinator() { links_.renew_coordinator(); }
  std::unique_ptr<rpc::Stream> connect_to_server(int position) { return links_.connect_to_server(position); }
  // How the coordinator connects to a server again, which it has to tell what that may have missed. To be set before
  // it asks one.
  void renew_servers_by(ServerRequests::Renew renew) { renew_server_ = std::move(renew); }
  const ServedState& state() const { return state_; }
  // Each for the task of that role.
  CoordinatorCopies& coordinator() { return coordinator_; }
  WorkerCopies& worker() { return worker_; }
  VariableServer& server() { return server_; }

  // Between the two nothing can be made: the other tasks would not have it. Throw: failed_precondition.
  void begin_functions() { runs_functions_ = true; }
  void end_functions() { runs_functions_ = false; }
  bool runs_functions() const { return runs_functions_; }

  // The coordinator's, of all runs, by whatever ClusterCoordinator: servers know calls by their numbers, from 1 on; a
  // worker that was lost may wake, and answer what nobody waits for any more; one that comes again in another process
  // begins with the first run, and is told how each has ended.
  struct Calls {
    int64_t last_number = 0;
    std::set<int> lost_workers = {};
    std::string last_loss = {};
    std::vector<std::shared_ptr<const Bytes>> ends = {};  // messages
  };
  Calls& calls() { return calls_; }
  // A worker's: how many runs it has gone through.
  int64_t& num_runs() { return num_runs_; }

  void open(Scope& scope) override;
  void settle() override;

  int add(ServedOptimizer optimizer) override;
  bool pushes() const override { return links_.role() == Role::worker; }
  bool is_elsewhere(const at::Tensor& variable) const override;
  void push(int optimizer, std::span<const at::Tensor> gradients, std::span<const at::Tensor> variables,
            double scale) override;

 private:
  bool is_another_name(const at::Tensor& tensor, std::span<const at::Tensor> made) const;

  TaskLinks links_;
  ServerRequests::Renew renew_server_;
  ServedState state_;
  CoordinatorCopies coordinator_;
  WorkerCopies worker_;
  VariableServer server_;
  std::atomic<bool> runs_functions_{false};
  std::vector<ServedOptimizer> built_;
  Calls calls_;
  int64_t num_runs_ = 0;
};

}  // namespace tutti::servers
