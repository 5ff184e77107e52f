#include "tutti/tools/launch_command.h"

#include <cstdlib>
#include <ostream>
#include <thread>

#include "tutti/cluster/launch_record.h"
#include "tutti/cluster/leader_server.h"
#include "tutti/cluster/network.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/error.h"
#include "tutti/tools/process_set.h"

namespace tutti::tools {
namespace {

using cluster::ClusterSpec;
using cluster::ControlSockets;
using cluster::LaunchRecord;
using cluster::LeaderServer;
using cluster::Task;

ClusterSpec spec_of(const LaunchOptions& options) {
  const auto addresses = [](const char* what, int count) {
    if (count < 0 || count > cluster::kMaxTasks)
      throw Error(ErrorCode::invalid_argument, str("the number of ", what, " is ", count));
    return std::vector<std::string>(static_cast<size_t>(count));
  };
  if (options.num_nodes > 1 && (options.has_chief || options.num_ps != 0 || options.has_evaluator))
    throw Error(ErrorCode::invalid_argument,
                "several nodes run workers and no other tasks; without --chief, --ps and "
                "--evaluator, worker 0 is the chief");
  ClusterSpec::Jobs jobs;
  if (options.has_chief) jobs["chief"] = addresses("chiefs", 1);
  if (options.num_workers != 0) jobs["worker"] = addresses("workers", options.num_workers * options.num_nodes);
  if (options.num_ps != 0) jobs["ps"] = addresses("parameter servers", options.num_ps);
  if (options.has_evaluator) jobs["evaluator"] = addresses("evaluators", 1);
  if (!jobs.contains("chief") && !jobs.contains("worker"))
    throw Error(ErrorCode::invalid_argument, "nobody would train: give a number of processes with -n");
  return jobs;
}

// Threads that fight for cores cost far more than they bring: each process gets its share, unless the user has said
// otherwise.
std::map<std::string, std::string> thread_variables(const LaunchOptions& options, int num_processes,
                                                    std::ostream& err) {
  if (options.cpus_per_process == 0 && (std::getenv("OMP_NUM_THREADS") || num_processes == 1)) return {};
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int share = options.cpus_per_process != 0 ? options.cpus_per_process : std::max(1, cores / num_processes);
  err << "[launch] OMP_NUM_THREADS=" << share << " in each of " << num_processes << " processes, on " << cores
      << " cores; --cpus-per-process changes it\n";
  return {{"OMP_NUM_THREADS", std::to_string(share)}};
}

class Launch {
 public:
  Launch(const LaunchOptions& options, std::ostream& out, std::ostream& err)
      : options_(options),
        spec_(spec_of(options)),
        variables_(thread_variables(options, spec_.num_tasks() / options.num_nodes, err)),
        out_(out),
        err_(err) {
    if (options.num_nodes == 1) return;
    security_ = cluster::Security::from_environment(cluster::Environment::of_process());
    cluster::require_security(security_);
  }

  ProcessSetEnd run(int attempt) { return options_.num_nodes > 1 ? run_node(attempt) : run_host(attempt); }

 private:
  ProcessSetEnd run_host(int attempt) {
    const FileDescriptor memory = create_group_memory(spec_.num_tasks("chief") + spec_.num_tasks("worker"));
    const bool is_elastic = options_.min_processes > 0;
    ProcessSet processes(signals_, options_.grace);
    std::vector<Task> tasks;
    std::vector<FileDescriptor> sockets;
    for (const auto& [name, job] : spec_.jobs())
      for (const auto& [index, address] : job) {
        ControlSockets control = cluster::make_control_sockets();
        tasks.push_back({name, index});
        sockets.push_back(std::move(control.leader));
        processes.add(start({.spec = spec_,
                             .task = tasks.back(),
                             .memory = name == "chief" || name == "worker" ? memory.number() : -1,
                             .control = control.member.number(),
                             .is_elastic = is_elastic},
                            attempt),
                      name == "ps" ? ProcessSet::Role::serves : ProcessSet::Role::works);
      }
    LeaderServer leader(tasks, std::move(sockets), {.min_members = options_.min_processes});
    Places places{.num_left = static_cast<int>(tasks.size()), .restarts_left = options_.num_restarts};
    const auto note_end = [&](int place, const ChildProcess& process) {
      --places.num_left;
      places.has_finished = places.has_finished || process.exit_code() == 0;
      if (is_elastic && process.exit_code() == 0)
        leader.finish(place);
      else
        leader.lose(place, process.how_it_ended());
    };
    if (options_.has_chief && options_.num_ps != 0)
      return wait_with_servers(processes, tasks, note_end, leader, places);
    if (!is_elastic) return processes.wait(note_end);
    const auto go_on = [&](int place, const std::string& cause, std::unique_ptr<ChildProcess>& process) {
      return go_on_without(place, cause, process, {tasks[static_cast<size_t>(place)], leader, places});
    };
    return processes.wait(note_end, go_on, [&](int place) { return leader.is_given_up(place); });
  }

  // What a run has lost and may start again.
  struct Places {
    int num_left, restarts_left;
    bool has_finished = false;  // one: the run is over
  };
  struct Lost {
    const Task& task;
    LeaderServer& leader;
    Places& places;
  };

  // Workers of a training with servers do what the chief gives them: others do it where one is lost, or another process
  // in its place.
  ProcessSetEnd wait_with_servers(ProcessSet& processes, const std::vector<Task>& tasks,
                                  const ProcessSet::OnEnd& note_end, LeaderServer& leader, Places& places) {
    int num_left = options_.num_workers;
    const auto go_on = [&](int place, const std::string& cause, std::unique_ptr<ChildProcess>& process) {
      const Task& task = tasks[static_cast<size_t>(place)];
      if (task.type != "worker") return false;
      if (places.restarts_left > 0 && !places.has_finished) {
        start_again(place, cause, process, {task, leader, places});
        return true;
      }
      if (--num_left == 0) return false;
      err_ << "[launch] " << cause << "; " << num_left << " workers are left, and go on\n" << std::flush;
      return true;
    };
    return processes.wait(note_end, go_on);
  }

  // The others go on where there are enough of them, or the lost one is started again. Its process is forked beside the
  // leader's thread, and does nothing between fork() and exec() that a lock could be in the way of.
  bool go_on_without(int place, const std::string& cause, std::unique_ptr<ChildProcess>& process, const Lost& lost) {
    Places& places = lost.places;
    if (places.has_finished) {  // what came too late for the run has not failed
      if (!lost.leader.takes_part(place)) err_ << "[launch] " << cause << "; the run was over\n" << std::flush;
      return !lost.leader.takes_part(place);
    }
    if (places.restarts_left == 0) {
      const bool are_enough = places.num_left >= options_.min_processes;
      if (are_enough) err_ << "[launch] " << cause << "; the other " << places.num_left << " go on\n" << std::flush;
      return are_enough;
    }
    start_again(place, cause, process, lost);
    return true;
  }

  void start_again(int place, const std::string& cause, std::unique_ptr<ChildProcess>& process, const Lost& lost) {
    Places& places = lost.places;
    const int attempt = options_.num_restarts - --places.restarts_left;
    err_ << "[launch] " << cause << "; it is started again, restart " << attempt << " of " << options_.num_restarts
         << ", and the others go on\n"
         << std::flush;
    ControlSockets control = cluster::make_control_sockets();
    lost.leader.replace(place, std::move(control.leader));
    process = start(
        {.spec = spec_, .task = lost.task, .control = control.member.number(), .is_elastic = true, .is_newcomer = true},
        attempt);
    ++places.num_left;
  }

  // The workers of this host among those of all. On host 0 this process leads them.
  ProcessSetEnd run_node(int attempt) {
    ProcessSet processes(signals_, options_.grace);
    std::vector<Task> all, here;
    for (int index = 0; index < spec_.num_tasks("worker"); ++index) {
      all.push_back({"worker", index});
      if (index / options_.num_workers != options_.node_rank) continue;
      here.push_back(all.back());
      processes.add(start({.spec = spec_, .task = here.back(), .leader = options_.leader}, attempt));
    }
    if (options_.node_rank != 0) return processes.wait([](int, const ChildProcess&) {});
    cluster::PeerHello own{.task = {"launcher", 0}, .spec = cluster::spec_text(spec_), .attempt = attempt};
    cluster::Gatekeeper gate(own);
    cluster::NetworkLeader leader(all);
    cluster::Door door(options_.leader, security_, [&](const cluster::PeerHello& hello) {
      auto refusal = gate.check(hello);
      return refusal ? refusal : leader.admit(hello);
    });
    leader.open(door);
    ProcessSetEnd end = processes.wait([&](int place, const ChildProcess& process) {
      leader.lose(here[static_cast<size_t>(place)], process.how_it_ended());
    });
    while (end.cause.empty() && leader.has_members() && !end.was_stopped) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const int signal : signals_.take()) end.was_stopped = end.was_stopped || signal != SIGCHLD;
    }
    leader.close();
    return end;
  }

  std::unique_ptr<ChildProcess> start(const LaunchRecord& record, int attempt) {
    ChildProcessOptions process{.name = to_string(record.task), .command = options_.command, .variables = variables_};
    process.variables["TUTTI_CLUSTER"] = to_string(record);
    process.variables["TUTTI_RESTARTS"] = std::to_string(attempt);
    if (record.control >= 0) process.inherited.push_back(record.control);
    if (record.memory >= 0) process.inherited.push_back(record.memory);
    process.signal_mask = signals_.old_mask();
    if (!options_.log_dir.empty())
      process.log = options_.log_dir / str(record.task.type, '-', record.task.index, ".log");
    return std::make_unique<ChildProcess>(process, out_, err_);
  }

  const LaunchOptions& options_;
  const ClusterSpec spec_;
  const std::map<std::string, std::string> variables_;
  std::ostream &out_, &err_;
  cluster::Security security_;  // of several nodes
  SignalWatch signals_;
};

}  // namespace

int launch(const LaunchOptions& options, std::ostream& out, std::ostream& err) {
  if (options.command.empty()) throw Error(ErrorCode::invalid_argument, "which program? Name it behind the options");
  if (options.command.front().starts_with('-'))
    throw Error(ErrorCode::invalid_argument,
                str("there is no option ", options.command.front(), "; `tutti launch --help` tells them"));
  const bool has_other_tasks = options.num_ps != 0 || options.has_evaluator || options.num_nodes > 1;
  const int num_processes = options.num_workers + (options.has_chief ? 1 : 0);
  if (options.min_processes < 0 || options.min_processes > num_processes ||
      (options.min_processes > 0 && has_other_tasks))
    throw Error(ErrorCode::invalid_argument,
                str("--min ", options.min_processes, ": from 1 to all ", num_processes,
                    " processes that train, on one host, with no servers and no evaluator"));
  if (options.num_restarts < 0 || options.cpus_per_process < 0 || options.grace.count() < 0)
    throw Error(ErrorCode::invalid_argument, "--restarts, --grace and --cpus-per-process are not negative");
  if (options.num_nodes < 1 || options.num_nodes > cluster::kMaxTasks || options.node_rank < 0 ||
      options.node_rank >= options.num_nodes)
    throw Error(ErrorCode::invalid_argument, str("there is no node ", options.node_rank, " of ", options.num_nodes));
  if (options.leader.empty() != (options.num_nodes == 1))
    throw Error(ErrorCode::invalid_argument,
                "several nodes need --leader HOST:PORT, the same on all: a port on the host "
                "of --node-rank 0; one node needs none");
  if (!options.log_dir.empty()) std::filesystem::create_directories(options.log_dir);
  Launch launch(options, out, err);
  for (int attempt = 0;; ++attempt) {
    const ProcessSetEnd end = launch.run(attempt);
    if (end.cause.empty()) return 0;
    const bool is_last = end.was_stopped || attempt == options.num_restarts || options.min_processes > 0;
    err << "[launch] " << end.cause
        << (is_last ? "\n" : str("; all are started again, restart ", attempt + 1, " of ", options.num_restarts, '\n'))
        << std::flush;
    if (is_last) return end.exit_code;
  }
}

}  // namespace tutti::tools
