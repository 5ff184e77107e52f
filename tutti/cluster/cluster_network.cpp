// How a Cluster reaches tasks that it shares no socket with.
#include <sys/eventfd.h>

#include <map>
#include <mutex>
#include <utility>

#include "tutti/cluster/cluster.h"
#include "tutti/cluster/network.h"
#include "tutti/cluster/rpc/host_address.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

std::vector<Task> tasks_of(const ClusterSpec& spec) {
  std::vector<Task> tasks;
  for (const auto& [name, job] : spec.jobs())
    for (const auto& [index, address] : job) tasks.push_back({name, index});
  return tasks;
}

std::string hex(const rpc::Digest& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

// Members end in the reverse order: the leader lets others in until it has seen them off.
struct Cluster::Network {
  PeerHello greeting;
  Security security;
  std::unique_ptr<Gatekeeper> gate;
  std::unique_ptr<Door> door;
  std::string address;  // of the door, for others
  std::unique_ptr<NetworkLeader> leader;
  std::unique_ptr<MessageBridge> bridge;
  std::mutex mutex;
  std::map<std::string, std::string> addresses;  // of tasks, as the leader told them last

  void open(const std::string& at) {
    gate = std::make_unique<Gatekeeper>(greeting);
    door = std::make_unique<Door>(at, security, [gate = gate.get(), leader = leader.get()](const PeerHello& hello) {
      auto refusal = gate->check(hello);
      return refusal || !leader ? refusal : leader->admit(hello);
    });
    address = rpc::is_local(at) ? at : str(at.substr(0, at.rfind(':')), ':', door->port());
  }
  // As `ask` says. Where there is no leader any more to ask: as it said before.
  template <class Ask>
  std::string address_of(const Task& peer, const Ask& ask) {
    try {
      const std::string told = ask();
      const std::lock_guard lock(mutex);
      return addresses[to_string(peer)] = told;
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      const auto known = addresses.find(to_string(peer));
      if (error.code() != ErrorCode::unavailable || known == addresses.end()) throw;
      return known->second;
    }
  }
  PeerHello greet(const std::string& purpose) const {
    PeerHello hello = greeting;
    hello.purpose = purpose;
    return hello;
  }
};

Cluster::Cluster(ClusterSpec spec, Task task, FileDescriptor leader, const ClusterOptions& options)
    : spec_(std::move(spec)),
      task_(std::move(task)),
      options_(options),
      socket_(std::move(leader)),
      end_(eventfd(0, EFD_CLOEXEC)),
      listener_([this] { listen(); }) {}

Cluster::~Cluster() {
  send({.kind = Kind::goodbye});
  eventfd_write(end_.number(), 1);
  listener_.join();
  network_.reset();
}

std::shared_ptr<Cluster> Cluster::begin_network(const ClusterSpec& spec, const Task& task, const NetworkPlan& plan,
                                                const ClusterOptions& options, const Environment& environment) {
  auto network = std::make_unique<Network>();
  network->greeting = own_greeting(spec, task, environment);
  if (plan.is_elastic) network->greeting.attempt = 0;
  if (!plan.is_on_one_host) {
    network->security = Security::from_environment(environment);
    require_security(network->security);
  }
  if (task == plan.leader) network->leader = std::make_unique<NetworkLeader>(tasks_of(spec));
  const std::string at =
      !plan.own_address.empty() ? plan.own_address : str(rpc::own_host_towards(plan.leader_address), ":0");
  prepare_folder(at);
  network->open(at);
  FileDescriptor control;
  if (network->leader) {
    control = network->leader->own_connection(task);
    network->leader->open(*network->door);
  } else {
    const std::string whom = plan.leader.type == "launcher" ? "the launcher" : to_string(plan.leader);
    auto stream =
        knock(plan.leader_address, whom, network->greet("leader"), network->security, options.connect_timeout);
    ControlSockets sockets = make_control_sockets();
    network->bridge = std::make_unique<MessageBridge>(std::move(sockets.leader), std::move(stream));
    control = std::move(sockets.member);
  }
  auto cluster = std::make_shared<Cluster>(spec, task, std::move(control), options);
  cluster->network_ = std::move(network);
  cluster->is_elastic_ = plan.is_elastic;
  return cluster;
}

void Cluster::publish_address() { insert(key_of_address(task_), network_->address); }

// Tasks of one host meet at a socket without a name in the file system; its name and the token that it takes to enter
// are known to those alone whom the launcher has given a connection.
void Cluster::open_local_door() {
  if (network_) return;
  auto network = std::make_unique<Network>();
  network->greeting = own_greeting(spec_, task_, {});
  insert("tutti token", hex(rpc::random_nonce()));
  network->security.token = get("tutti token", std::chrono::seconds(30));
  network->open(str("unix-abstract:tutti-", hex(rpc::random_nonce()).substr(0, 32)));
  network_ = std::move(network);
  publish_address();
}

std::unique_ptr<rpc::Stream> Cluster::connect(const Task& peer, const std::string& purpose,
                                              std::chrono::milliseconds timeout, rpc::Carriage over) {
  spec_.address(peer);  // throws for one that is not there
  if (peer == task_) throw Error(ErrorCode::invalid_argument, str(to_string(task_), " needs no connection to itself"));
  std::call_once(has_door_, [this] { open_local_door(); });
  const auto before = [](const Task& one, const Task& other) {
    return std::pair(one.type, one.index) < std::pair(other.type, other.index);
  };
  if (before(peer, task_)) {
    const auto begin = Door::Clock::now();
    const std::string address = network_->address_of(peer, [&] { return get(key_of_address(peer), timeout); });
    const auto left = timeout - std::chrono::duration_cast<std::chrono::milliseconds>(Door::Clock::now() - begin);
    return knock(address, to_string(peer), network_->greet(purpose), network_->security, left, over);
  }
  auto visitor = network_->door->take(peer, purpose, Door::Clock::now() + timeout);
  if (!visitor)
    throw Error(ErrorCode::deadline_exceeded, str(to_string(peer), " has not come to ", to_string(task_), " for '",
                                                  purpose, "' in ", timeout.count(), " ms"));
  return std::move(visitor->stream);
}

}  // namespace tutti::cluster
