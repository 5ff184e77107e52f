#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/cluster/cluster_spec.h"
#include "tutti/cluster/control_message.h"
#include "tutti/cluster/environment.h"
#include "tutti/cluster/leader_server.h"
#include "tutti/cluster/network_plan.h"
#include "tutti/cluster/regrouping.h"
#include "tutti/cluster/rpc/stream.h"
#include "tutti/core/error.h"
#include "tutti/core/file_descriptor.h"

namespace tutti::cluster {

struct ClusterOptions {
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(600);  // until all tasks have come
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);          // the leader waits for six of them
};

// This process as a member of its cluster: barriers and keys, by way of a leader. Every wait has a deadline; who is
// missing, and how a process has ended, is named. Any thread, but for barriers, to which one thread of a process goes.
class Cluster {
 public:
  // The processes that `tutti launch` started, whose leader is the launcher; those of another launcher, or of
  // TF_CONFIG, led by the chief or worker 0 (see plan_network); without a launcher, this process alone. Returns when
  // all have come. To be called once. Throws: deadline_exceeded naming who has not come; unavailable;
  // failed_precondition for processes of several hosts that prove nothing (see Security), another cluster, program or
  // token than the leader's, and already_exists for a task that is here twice and a port that is taken.
  static std::shared_ptr<Cluster> join(const ClusterOptions& options = {},
                                       const Environment& environment = Environment::of_process());
  // The member at this end of a connection.
  Cluster(ClusterSpec spec, Task task, FileDescriptor leader, const ClusterOptions& options = {});
  ~Cluster();  // says goodbye
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const ClusterSpec& spec() const { return spec_; }
  const Task& task() const { return task_; }

  // Returns when all processes have arrived at this name. Throws: deadline_exceeded naming the missing ones,
  // unavailable naming the lost one and how it ended, failed_precondition where all wait and not for the same.
  void barrier(const std::string& name, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  // Keys live as long as the leader. The first to write one wins; returns whether this was it. Throws: invalid_argument
  // for more than fits a message (64 KiB), resource_exhausted.
  bool insert(const std::string& key, const std::string& value);
  // Waits until somebody has written it. Throws: deadline_exceeded, unavailable.
  std::string get(const std::string& key, std::chrono::milliseconds timeout);
  // "worker 1: waits at barrier 'start'", a line for each task.
  std::string describe_members();
  // What every task has given under this name, in the order of jobs' names and of indices. All tasks call it, and wait
  // for each other. Throws: as barrier; resource_exhausted where all of it has more than 32 KiB.
  std::vector<std::string> gather(const std::string& name, const std::string& value,
                                  std::chrono::milliseconds timeout = std::chrono::minutes(10));
  // Whether those that are left go on when a process is lost (`tutti launch --min`), and whether this process came in
  // the place of one: it is alone, and passes every barrier, until it is in a group.
  bool is_elastic() const { return is_elastic_; }
  bool is_newcomer() const { return is_newcomer_; }
  // Forms a new group with all that are left and those that wait to be let in. Each brings something that all get; with
  // fewer than `fewest` members they wait for others. Throws: as barrier; deadline_exceeded where too few have come,
  // unavailable where a member has finished: the run is over; failed_precondition where none is formed.
  Regrouping regroup(const std::string& brought, int fewest, std::chrono::milliseconds timeout);
  // Whether a process waits to be let in.
  bool has_newcomers() const { return newcomers_of_.load() == group_.load(); }
  // This process cannot go on: all who wait for it, or will, throw unavailable with this cause.
  void fail(const std::string& cause);
  // What this process is about, for messages of others about it: "step 118".
  void note_place(const std::string& place);
  // The same where it is to be asked for, with each heartbeat, on another thread; empty: no more. Not asked any more
  // when this returns.
  void ask_place(std::function<std::string()> place);

  // A stream of messages to another task, which has to ask for the same one, once for each purpose. What carries it
  // says the one whose name is the later one. Throws: deadline_exceeded, and what the other task refuses.
  std::unique_ptr<rpc::Stream> connect(const Task& peer, const std::string& purpose, std::chrono::milliseconds timeout,
                                       rpc::Carriage over = rpc::Carriage::sockets);

 private:
  using Kind = ControlMessage::Kind;
  struct Network;

  static std::shared_ptr<Cluster> begin(const ClusterOptions& options, const Environment& environment);
  static std::shared_ptr<Cluster> begin_alone(const ClusterSpec& spec, const Task& task, const ClusterOptions& options);
  static std::shared_ptr<Cluster> begin_network(const ClusterSpec& spec, const Task& task, const NetworkPlan& plan,
                                                const ClusterOptions& options, const Environment& environment);
  void publish_address();
  void open_local_door();
  std::string ask(ControlMessage message, std::chrono::milliseconds timeout);
  void send(const ControlMessage& message);
  void listen();
  void answer(const ControlMessage& message);
  void end_all(const Error& error);

  const ClusterSpec spec_;
  const Task task_;
  const ClusterOptions options_;
  bool is_elastic_ = false, is_newcomer_ = false;
  std::atomic<int64_t> group_ = 0, newcomers_of_ = -1;  // numbers of groups
  std::unique_ptr<LeaderServer> own_leader_;            // of a process alone
  std::once_flag has_door_;
  std::unique_ptr<Network> network_;  // between hosts; on one host, once a stream was asked for
  FileDescriptor socket_, end_;
  std::mutex mutex_;
  std::string place_;
  std::function<std::string()> asked_place_;
  uint64_t last_request_ = 0;
  std::map<uint64_t, std::promise<ControlMessage>> asked_;
  std::optional<Error> broken_;  // why the leader cannot be asked any more
  std::thread listener_;
};

}  // namespace tutti::cluster
