#include "tutti/tools/launch_command.h"

#include <cstdlib>
#include <ostream>
#include <thread>

#include "tutti/cluster/launch_record.h"
#include "tutti/cluster/leader_server.h"
#include "tutti/cluster/network.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/error.h"
#include "tutti/tools/launch_places.h"
#include "tutti/tools/node_hub.h"
#include "tutti/tools/node_link.h"
#include "tutti/tools/output_folder.h"
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
    LaunchPlaces places(static_cast<int>(tasks.size()), options_.min_processes, options_.num_restarts);
    const auto note_end = [&](int place, const ChildProcess& process) {
      places.note_end(process.exit_code() == 0);
      if (is_elastic && process.exit_code() == 0)
        leader.finish(place);
      else
        leader.lose(place, process.how_it_ended());
    };
    if (options_.has_chief && options_.num_ps != 0)
      return wait_with_servers(processes, tasks, note_end, leader, places);
    if (!is_elastic) return processes.wait(note_end);
    const auto judge = [&](int place, const ChildProcess&) { return places.judge(leader.takes_part(place)); };
    return processes.wait(note_end, going_on(judge, restart_of_host(tasks, leader)),
                          [&](int place) { return leader.is_given_up(place); });
  }

  using Judge = std::function<Verdict(int place, const ChildProcess& process)>;
  using Restart = std::function<std::unique_ptr<ChildProcess>(int place, int attempt)>;

  // What is done about a process of this host that has failed, where the others may go on.
  ProcessSet::OnFailure going_on(Judge judge, Restart restart) {
    return [this, judge = std::move(judge), restart = std::move(restart)](int place, const std::string& cause,
                                                                          std::unique_ptr<ChildProcess>& process) {
      const Verdict verdict = judge(place, *process);
      if (!verdict.why.empty()) err_ << "[launch] " << cause << "; " << verdict.why << '\n' << std::flush;
      if (verdict.kind == Verdict::Kind::starts_again) process = restart(place, verdict.attempt);
      return verdict.kind != Verdict::Kind::ends;
    };
  }

  // Workers of a training with servers do what the chief gives them: others do it where one is lost, or another process
  // in its place.
  ProcessSetEnd wait_with_servers(ProcessSet& processes, const std::vector<Task>& tasks,
                                  const ProcessSet::OnEnd& note_end, LeaderServer& leader, LaunchPlaces& places) {
    int num_left = options_.num_workers;
    const auto judge = [&](int place, const ChildProcess&) -> Verdict {
      if (tasks[static_cast<size_t>(place)].type != "worker") return {};
      if (Verdict again = places.start_again(); again.kind == Verdict::Kind::starts_again) return again;
      if (--num_left == 0) return {};
      return {.kind = Verdict::Kind::goes_on, .why = str(num_left, " workers are left, and go on")};
    };
    return processes.wait(note_end, going_on(judge, restart_of_host(tasks, leader)));
  }

  // A process in the place of a lost one. It is forked beside the leader's thread, and does nothing between fork() and
  // exec() that a lock could be in the way of.
  Restart restart_of_host(const std::vector<Task>& tasks, LeaderServer& leader) {
    return [this, &tasks, &leader](int place, int attempt) {
      ControlSockets control = cluster::make_control_sockets();
      leader.replace(place, std::move(control.leader));
      const Task& task = tasks[static_cast<size_t>(place)];
      return start({.spec = spec_, .task = task, .control = control.member.number(), .is_elastic = true}, attempt);
    };
  }

  // The workers of this host among those of all. On host 0 this process leads them.
  ProcessSetEnd run_node(int attempt) {
    ProcessSet processes(signals_, options_.grace);
    std::vector<Task> here;
    for (int index = options_.node_rank * options_.num_workers; index < (options_.node_rank + 1) * options_.num_workers;
         ++index) {
      here.push_back({"worker", index});
      processes.add(start_of_node(here.back(), attempt));
    }
    if (options_.node_rank == 0) return lead_nodes(processes, here, attempt);
    return options_.min_processes > 0 ? follow_leader(processes, here)
                                      : processes.wait([](int, const ChildProcess&) {});
  }

  std::unique_ptr<ChildProcess> start_of_node(const Task& task, int attempt) {
    return start({.spec = spec_, .task = task, .is_elastic = options_.min_processes > 0, .leader = options_.leader},
                 attempt);
  }

  Restart restart_of_node(const std::vector<Task>& here) {
    return [this, &here](int place, int attempt) { return start_of_node(here[static_cast<size_t>(place)], attempt); };
  }

  cluster::PeerHello greeting(int attempt) const {
    return {.task = {"launcher", options_.node_rank},
            .spec = cluster::spec_text(spec_),
            .purpose = kNodePurpose,
            .attempt = attempt};
  }

  ProcessSetEnd lead_nodes(ProcessSet& processes, const std::vector<Task>& here, int attempt) {
    std::vector<Task> all;
    for (int index = 0; index < spec_.num_tasks("worker"); ++index) all.push_back({"worker", index});
    cluster::Gatekeeper gate(greeting(attempt)), gate_of_launchers(greeting(attempt));
    cluster::NetworkLeader leader(all, {.min_members = options_.min_processes});
    LaunchPlaces places(static_cast<int>(all.size()), options_.min_processes, options_.num_restarts);
    NodeHub hub(leader, places, options_.num_nodes, options_.num_workers);
    cluster::Door door(options_.leader, security_, [&](const cluster::PeerHello& hello) {
      const bool is_launcher = hello.purpose == kNodePurpose;
      auto refusal = (is_launcher ? gate_of_launchers : gate).check(hello);
      return refusal ? refusal : is_launcher ? hub.admit(hello) : leader.admit(hello);
    });
    struct Closing {
      cluster::NetworkLeader& leader;
      NodeHub& hub;
      ~Closing() {
        hub.close();
        leader.close();
      }
    } closing{leader, hub};
    leader.open(door);
    hub.open(door);
    ProcessSetEnd end = wait_beside_nodes(processes, here, leader, places);
    while (end.cause.empty() && (leader.has_members() || hub.has_nodes()) && !end.was_stopped) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const int signal : signals_.take()) end.was_stopped = end.was_stopped || signal != SIGCHLD;
    }
    return end;
  }

  // Those of host 0.
  ProcessSetEnd wait_beside_nodes(ProcessSet& processes, const std::vector<Task>& here, cluster::NetworkLeader& leader,
                                  LaunchPlaces& places) {
    const auto task_at = [&](int place) -> const Task& { return here[static_cast<size_t>(place)]; };
    const auto note_end = [&](int place, const ChildProcess& process) {
      places.note_end(process.exit_code() == 0);
      if (options_.min_processes > 0 && process.exit_code() == 0)
        leader.finish(task_at(place));
      else
        leader.lose(task_at(place), process.how_it_ended());
    };
    if (options_.min_processes == 0) return processes.wait(note_end);
    const auto judge = [&](int place, const ChildProcess&) { return places.judge(leader.takes_part(task_at(place))); };
    return processes.wait(note_end, going_on(judge, restart_of_node(here)),
                          [&](int place) { return leader.is_given_up(task_at(place)); });
  }

  // Those of another host of an elastic run, of which host 0 decides.
  ProcessSetEnd follow_leader(ProcessSet& processes, const std::vector<Task>& here) {
    const auto worker_at = [&](int place) { return here[static_cast<size_t>(place)].index; };
    NodeLink link(options_.leader, greeting(/*attempt=*/0), security_);
    const auto judge = [&](int place, const ChildProcess& process) { return link.judge(worker_at(place), process); };
    return processes.wait([&](int place, const ChildProcess& process) { link.note_end(worker_at(place), process); },
                          going_on(judge, restart_of_node(here)),
                          [&](int place) { return link.is_given_up(worker_at(place)); });
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
  const bool has_other_tasks = options.num_ps != 0 || options.has_evaluator;
  const int64_t num_processes = (int64_t{options.num_workers} + (options.has_chief ? 1 : 0)) * options.num_nodes;
  if (options.min_processes < 0 || options.min_processes > num_processes ||
      (options.min_processes > 0 && has_other_tasks))
    throw Error(ErrorCode::invalid_argument, str("--min ", options.min_processes, ": from 1 to all ", num_processes,
                                                 " processes that train, with no servers and no evaluator"));
  if (options.num_restarts < 0 || options.cpus_per_process < 0 || options.grace.count() < 0)
    throw Error(ErrorCode::invalid_argument, "--restarts, --grace and --cpus-per-process are not negative");
  if (options.num_nodes < 1 || options.num_nodes > cluster::kMaxTasks || options.node_rank < 0 ||
      options.node_rank >= options.num_nodes)
    throw Error(ErrorCode::invalid_argument, str("there is no node ", options.node_rank, " of ", options.num_nodes));
  if (options.leader.empty() != (options.num_nodes == 1))
    throw Error(ErrorCode::invalid_argument,
                "several nodes need --leader HOST:PORT, the same on all: a port on the host "
                "of --node-rank 0; one node needs none");
  if (!options.log_dir.empty()) make_output_folder(options.log_dir);
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
