#include "tutti/cluster/cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tutti/cluster/from_environment.h"
#include "tutti/cluster/launch_record.h"
#include "tutti/core/bytes.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

constexpr auto kAnswerTime = std::chrono::seconds(30);  // of a leader that has nothing to wait for

// Takes the inherited socket over, once it is sure that it is one.
FileDescriptor control_socket(const LaunchRecord& record) {
  int kind = 0, domain = 0;
  socklen_t length = sizeof kind;
  const bool is_socket = getsockopt(record.control, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 &&
                         getsockopt(record.control, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0;
  if (!is_socket || kind != SOCK_SEQPACKET || domain != AF_UNIX || fcntl(record.control, F_SETFD, FD_CLOEXEC) != 0)
    throw Error(ErrorCode::invalid_argument,
                str("TUTTI_CLUSTER names ", record.control, " as the socket to the launcher, and it is none"));
  return FileDescriptor(record.control);
}

}  // namespace

std::shared_ptr<Cluster> Cluster::join(const ClusterOptions& options, const Environment& environment) {
  const auto cluster = begin(options, environment);
  const std::string welcome =
      cluster->ask({.kind = Kind::hello, .name = to_string(cluster->task_), .number = kControlVersion}, kAnswerTime);
  cluster->is_newcomer_ = welcome == kNewcomer;
  if (cluster->network_) cluster->publish_address();
  if (!cluster->is_newcomer_) cluster->barrier("all tasks have come", options.connect_timeout);
  return cluster;
}

std::shared_ptr<Cluster> Cluster::begin(const ClusterOptions& options, const Environment& environment) {
  if (environment.has("TUTTI_CLUSTER")) {
    const LaunchRecord record = LaunchRecord::parse(environment.text("TUTTI_CLUSTER"));
    if (record.leader.empty()) {
      auto cluster = std::make_shared<Cluster>(record.spec, record.task, control_socket(record), options);
      cluster->is_elastic_ = record.is_elastic;
      return cluster;
    }
    const NetworkPlan plan{.leader = {"launcher", 0}, .leader_address = record.leader, .is_elastic = record.is_elastic};
    return begin_network(record.spec, record.task, plan, options, environment);
  }
  const ClusterResolver resolver = from_environment(environment);
  const ClusterSpec& spec = resolver.cluster_spec();
  const Task task = resolver.task().value_or(Task{});
  if (spec.is_empty()) return begin_alone(ClusterSpec::of_size("worker", 1), Task{}, options);
  if (!spec.has(task)) return begin_alone(ClusterSpec({{task.type, {""}}}), {task.type, 0}, options);  // an evaluator
  if (spec.num_tasks() == 1) return begin_alone(spec, task, options);
  return begin_network(spec, task, plan_network(spec, task, environment), options, environment);
}

std::shared_ptr<Cluster> Cluster::begin_alone(const ClusterSpec& spec, const Task& task,
                                              const ClusterOptions& options) {
  ControlSockets sockets = make_control_sockets();
  auto cluster = std::make_shared<Cluster>(spec, task, std::move(sockets.member), options);
  std::vector<FileDescriptor> leaders;
  leaders.push_back(std::move(sockets.leader));
  cluster->own_leader_ = std::make_unique<LeaderServer>(std::vector<Task>{task}, std::move(leaders));
  return cluster;
}

void Cluster::barrier(const std::string& name, std::chrono::milliseconds timeout) {
  ask({.kind = Kind::barrier, .name = name, .number = timeout.count()}, timeout + kAnswerTime);
}

bool Cluster::insert(const std::string& key, const std::string& value) {
  return ask({.kind = Kind::insert, .name = key, .value = value}, kAnswerTime) == "inserted";
}

std::string Cluster::get(const std::string& key, std::chrono::milliseconds timeout) {
  return ask({.kind = Kind::get, .name = key, .number = timeout.count()}, timeout + kAnswerTime);
}

std::vector<std::string> Cluster::gather(const std::string& name, const std::string& value,
                                         std::chrono::milliseconds timeout) {
  const std::string answer =
      ask({.kind = Kind::gather, .name = name, .value = value, .number = timeout.count()}, timeout + kAnswerTime);
  ByteReader reader({reinterpret_cast<const uint8_t*>(answer.data()), answer.size()}, "gathered values");
  std::vector<std::string> values(static_cast<size_t>(reader.count(sizeof(int64_t))));
  for (std::string& each : values) each = reader.text();
  reader.finish();
  return values;
}

Regrouping Cluster::regroup(const std::string& brought, int fewest, std::chrono::milliseconds timeout) {
  const std::string answer =
      ask({.kind = Kind::regroup, .name = fewest_text(fewest), .value = brought, .number = timeout.count()},
          timeout + kAnswerTime);
  Regrouping group = decode_regrouping(answer);
  group_ = group.number;
  is_newcomer_ = false;
  return group;
}

void Cluster::fail(const std::string& cause) { send({.kind = Kind::failure, .name = cause}); }

void Cluster::note_place(const std::string& place) {
  const std::lock_guard lock(mutex_);
  place_ = place;
}

void Cluster::ask_place(std::function<std::string()> place) {
  const std::lock_guard lock(mutex_);
  asked_place_ = std::move(place);
}

std::string Cluster::describe_members() { return ask({.kind = Kind::members}, kAnswerTime); }

// The leader's answer, or the error that it is.
std::string Cluster::ask(ControlMessage message, std::chrono::milliseconds timeout) {
  std::future<ControlMessage> answered;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) throw Error(*broken_);
    message.request = ++last_request_;
    answered = asked_[message.request].get_future();
  }
  const auto forget = [&] {
    const std::lock_guard lock(mutex_);
    asked_.erase(message.request);
  };
  try {
    send(message);
  } catch (...) {
    forget();
    throw;
  }
  if (answered.wait_for(timeout) != std::future_status::ready) {
    forget();
    throw Error(ErrorCode::deadline_exceeded, str(to_string(task_), " has waited for its leader for ", timeout.count(),
                                                  " ms, about '", message.name, "'"));
  }
  ControlMessage answer = answered.get();
  if (answer.kind == Kind::done) return std::move(answer.value);
  const bool is_known = answer.number >= 0 && answer.number <= static_cast<int64_t>(ErrorCode::internal);
  throw Error(is_known ? static_cast<ErrorCode>(answer.number) : ErrorCode::internal, answer.name);
}

// A send that fails shows to the listener as the end of the connection.
void Cluster::send(const ControlMessage& message) {
  const std::vector<uint8_t> bytes = encode(message);
  (void)::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Cluster::listen() {
  std::vector<uint8_t> buffer(kMaxControlBytes + 1);
  auto next_heartbeat = std::chrono::steady_clock::now() + options_.heartbeat;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_heartbeat - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      ControlMessage alive{.kind = Kind::heartbeat};
      {
        const std::lock_guard lock(mutex_);
        alive.name = asked_place_ ? asked_place_() : "";
        if (alive.name.empty()) alive.name = place_;
      }
      send(alive);
      next_heartbeat += options_.heartbeat;
      continue;
    }
    pollfd files[2] = {{.fd = end_.number(), .events = POLLIN, .revents = 0},
                       {.fd = socket_.number(), .events = POLLIN, .revents = 0}};
    const int num_ready = poll(files, 2, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (num_ready <= 0) continue;
    if (files[0].revents != 0) return;
    const ssize_t count = recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return end_all(Error(ErrorCode::unavailable, "the leader of the cluster has ended"));
    try {
      answer(decode_control_message({buffer.data(), static_cast<size_t>(count)}));
    } catch (const Error& error) {
      return end_all(error);
    }
  }
}

void Cluster::answer(const ControlMessage& message) {
  if (message.kind == Kind::joiner) newcomers_of_ = message.number;
  const std::lock_guard lock(mutex_);
  const auto asked = asked_.find(message.request);
  if (asked == asked_.end()) return;  // nobody waits for it any more
  asked->second.set_value(message);
  asked_.erase(asked);
}

void Cluster::end_all(const Error& error) {
  const std::lock_guard lock(mutex_);
  broken_ = error;
  const ControlMessage answer{.kind = Kind::error, .name = error.what(), .number = static_cast<int64_t>(error.code())};
  for (auto& [request, promise] : asked_) promise.set_value(answer);
  asked_.clear();
}

}  // namespace tutti::cluster
