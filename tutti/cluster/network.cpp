#include "tutti/cluster/network.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kLinger = 10s;

}  // namespace

NetworkLeader::NetworkLeader(const std::vector<Task>& tasks, const LeaderOptions& options)
    : tasks_(tasks), is_elastic_(options.min_members > 0) {
  std::vector<FileDescriptor> leaders;
  for (size_t i = 0; i < tasks.size(); ++i) {
    ControlSockets sockets = make_control_sockets();
    leaders.push_back(std::move(sockets.leader));
    connections_.push_back(std::move(sockets.member));
  }
  bridges_.resize(tasks.size());
  server_ = std::make_unique<LeaderServer>(tasks, std::move(leaders), options);
}

NetworkLeader::~NetworkLeader() {
  const auto until = Door::Clock::now() + kLinger;
  while (has_members() && Door::Clock::now() < until) std::this_thread::sleep_for(5ms);
  close();
  server_.reset();
  bridges_.clear();
}

FileDescriptor NetworkLeader::own_connection(const Task& task) {
  const std::lock_guard lock(mutex_);
  here_.insert(to_string(task));
  return std::move(connection_of(task));
}

int NetworkLeader::place_of(const Task& task) const {
  return static_cast<int>(std::ranges::find(tasks_, task) - tasks_.begin());
}

void NetworkLeader::close() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

bool NetworkLeader::has_members() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(bridges_,
                             [](const auto& of_task) { return !of_task.empty() && !of_task.back()->has_ended(); });
}

void NetworkLeader::lose(const Task& task, const std::string& how) { server_->lose(place_of(task), how); }
void NetworkLeader::finish(const Task& task) { server_->finish(place_of(task)); }
bool NetworkLeader::is_given_up(const Task& task) { return server_->is_given_up(place_of(task)); }
bool NetworkLeader::takes_part(const Task& task) { return server_->takes_part(place_of(task)); }

void NetworkLeader::open(Door& door) {
  thread_ = std::thread([this, &door] { run(door); });
}

std::optional<Error> NetworkLeader::admit(const PeerHello& hello) {
  if (hello.purpose != "leader") return {};
  if (std::ranges::find(tasks_, hello.task) == tasks_.end())
    return Error(ErrorCode::invalid_argument, str("the cluster has no ", to_string(hello.task)));
  const std::lock_guard lock(mutex_);
  if (!here_.insert(to_string(hello.task)).second && !may_return(hello.task))
    return Error(is_elastic_ ? ErrorCode::unavailable : ErrorCode::already_exists,  // it may be about to be lost
                 str(to_string(hello.task), " is here already, or was: is it started twice?"));
  return {};
}

bool NetworkLeader::may_return(const Task& task) const {
  const bool has_servers = std::ranges::any_of(tasks_, [](const Task& each) { return each.type == "ps"; });
  const auto& bridges = bridges_[static_cast<size_t>(place_of(task))];
  if (is_elastic_ && server_->is_lost(place_of(task))) return true;
  return task.type == "worker" && (has_servers || is_elastic_) && !bridges.empty() && bridges.back()->has_ended();
}

void NetworkLeader::run(Door& door) {
  while (!ends_) {
    auto visitor = door.take("leader", Door::Clock::now() + 50ms);
    if (!visitor) continue;
    const int place = place_of(visitor->hello.task);
    const std::lock_guard lock(mutex_);
    FileDescriptor& connection = connections_[static_cast<size_t>(place)];
    if (!connection) {
      if (is_elastic_) server_->lose(place, "has ended without saying so");  // unless that is known
      ControlSockets sockets = make_control_sockets();
      server_->replace(place, std::move(sockets.leader));
      connection = std::move(sockets.member);
    }
    bridges_[static_cast<size_t>(place)].push_back(
        std::make_unique<MessageBridge>(std::move(connection), std::move(visitor->stream)));
  }
}

std::optional<Error> Gatekeeper::check(const PeerHello& hello) {
  const std::lock_guard lock(mutex_);
  const std::string here = to_string(own_.task), there = to_string(hello.task);
  if (hello.spec != own_.spec)
    return Error(ErrorCode::failed_precondition,
                 str(there, " knows another cluster than ", here, ": ", spec_difference(own_.spec, hello.spec),
                     "; give all tasks the same one"));
  if (hello.attempt != own_.attempt)
    return Error(ErrorCode::unavailable, str(there, " belongs to start ", hello.attempt, " of the program, ", here,
                                             " to start ", own_.attempt));
  if (own_.program.empty()) own_.program = hello.program;
  if (hello.program != own_.program)
    return Error(ErrorCode::failed_precondition,
                 str(there, " runs another program than the others (build ", hello.program.substr(0, 12), ", not ",
                     own_.program.substr(0, 12), "): start all tasks from one build"));
  return {};
}

PeerHello own_greeting(const ClusterSpec& spec, const Task& task, const Environment& environment) {
  return {.task = task,
          .program = program_build(),
          .spec = spec_text(spec),
          .attempt = environment.has("TUTTI_RESTARTS") ? environment.integer("TUTTI_RESTARTS", 0, 1'000'000'000) : 0};
}

void prepare_folder(const std::string& address) {
  if (!address.starts_with("unix:")) return;
  const std::string folder = std::filesystem::path(address.substr(5)).parent_path();
  struct stat found {};
  const bool is_there = mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
  if (!is_there || lstat(folder.c_str(), &found) != 0)
    throw Error(ErrorCode::failed_precondition, str("the folder ", folder, " cannot be made: ", std::strerror(errno)));
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 077) != 0)
    throw Error(ErrorCode::failed_precondition,
                str("others may enter ", folder,
                    ", where processes of this user meet: remove it, or make it this user's "
                    "alone (chmod 700)"));
}

}  // namespace tutti::cluster
