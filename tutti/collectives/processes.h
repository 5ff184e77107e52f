#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/cluster/cluster.h"
#include "tutti/collectives/communication_options.h"
#include "tutti/collectives/group.h"
#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"

namespace tutti {

// This process among those that train one program together: the chief, rank 0, and the workers. It owns their Group and
// its place in the cluster. Every call here is made by all processes, in the same order; calls from several threads of
// one process take turns.
// Throws, from every call: as Group::run, with what became of each task, which is asked of the leader.
class Processes {
 public:
  using Location = std::source_location;

  // `cluster` may be null: then nobody can be asked how a process ended. `options` and `gpu` are of groups that are
  // formed later.
  Processes(std::unique_ptr<Group> group, std::shared_ptr<cluster::Cluster> cluster, CommunicationOptions options = {},
            std::optional<int> gpu = {});
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // The processes of this program; null where it is one process alone. The first call waits for the others; they then
  // stay together until the program ends. CommunicationImplementation::nccl takes the index of the GPU that this
  // process adds on, and other implementations need none. Throws: as Cluster::join, launched_group, cluster_group and
  // nccl_group; invalid_argument for NCCL without a GPU; failed_precondition for other options than those of the first
  // call.
  static std::shared_ptr<Processes> join(const CommunicationOptions& options,
                                         std::chrono::milliseconds connect_timeout = std::chrono::seconds(600),
                                         std::optional<int> gpu = {});
  // What join() returned; null before it was called.
  static std::shared_ptr<Processes> of_program();

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  bool is_chief() const { return rank() == 0; }
  // The GPU on which calls with BufferPlace::device add; none where values are brought to the host.
  std::optional<int> device() const { return group_->device(); }
  // Memory in which this process sums with those of its host: see Group. None of it is for calls after a regroup().
  std::shared_ptr<std::byte> allocate_shared(size_t bytes) { return group_->allocate_shared(bytes); }
  size_t shared_bytes(const void* data) const { return group_->shared_bytes(data); }
  // "worker 1"
  std::string task_name() const { return task_name(rank()); }
  std::string task_name(int rank) const;
  const std::shared_ptr<cluster::Cluster>& cluster() const { return cluster_; }

  void run(const Collective& call);
  // Gives up: see Group::abort.
  void abort(const std::string& cause) { group_->abort(cause); }

  // Whether a call has failed because processes are lost, late or have given up. Then every call fails until regroup(),
  // by which the processes that are left and those that have come form a new group, with other ranks and another size;
  // all strategies of the program go on with it. Returns what each process `brought`, by rank. It is for Elastic, which
  // calls it where no other thread communicates.
  // Throws: as Cluster::regroup and cluster_group.
  bool has_lost() const { return has_lost_; }
  std::vector<std::string> regroup(const std::string& brought, int fewest, std::chrono::milliseconds timeout);
  // How often the processes of this program were regrouped: what was computed from their number holds until then.
  static int64_t num_regroupings() { return num_regroupings_.load(std::memory_order_relaxed); }

  // Replaces each number by its sum over the processes.
  void sum(std::span<int64_t> numbers, const char* name, Location where = Location::current());
  int64_t sum(int64_t number, const char* name, Location where = Location::current()) {
    sum({&number, 1}, name, where);
    return number;
  }
  // What each process passed, by rank; of any lengths.
  std::vector<std::vector<uint8_t>> gather(std::span<const uint8_t> own, const char* name,
                                           Location where = Location::current());
  // Calls f in the chief alone. All processes get what it returns, or throw what it throws: the chief the exception
  // itself, the others an Error of the same code and text.
  std::string on_chief(const char* name, FunctionRef<std::string()> f, Location where = Location::current());

 private:
  // The call that this process is in, for heartbeats.
  struct Place {
    std::mutex mutex;
    Collective call;
    char name[64];
    int64_t number = 0;  // of the call
    bool is_in = false;

    void enter(const Collective& call);
    void leave();
    std::string text();  // empty: in none
  };

  std::string fates(ErrorCode code);

  std::shared_ptr<cluster::Cluster> cluster_;
  std::unique_ptr<Group> group_;  // ends before the cluster
  const CommunicationOptions options_;
  const std::optional<int> gpu_;
  std::vector<cluster::Task> tasks_;  // by rank; none without a cluster
  bool has_lost_ = false;
  static inline std::atomic<int64_t> num_regroupings_{0};
  Place place_;
  std::mutex turn_;
};

// f() where there is one process alone, else processes->on_chief(name, f).
std::string on_chief(const std::shared_ptr<Processes>& processes, const char* name, FunctionRef<std::string()> f,
                     std::source_location where = std::source_location::current());

}  // namespace tutti
