// Parameter servers whose connections are cut, and which are made and ended again and again, in one process.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/support/fault_proxy.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watchdog.h"
#include "tutti/cluster/rpc/transport.h"
#include "tutti/core/file_descriptor.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/distribute/servers/server_requests.h"
#include "tutti/distribute/servers/task_links.h"
#include "tutti/distribute/servers/variable_server.h"

namespace tutti::servers {
namespace {

using namespace std::chrono_literals;

// A server of one variable, of which update i adds 1 to element i. It takes each new connection in the place of the one
// before.
class CountingServer {
 public:
  CountingServer(const std::string& address, int64_t count)
      : counts(strategy.build([&] { return at::zeros({count}, at::kDouble).set_requires_grad(true); })),
        door_(address, {}, [this](std::unique_ptr<rpc::Stream> stream) {
          const std::lock_guard lock(mutex_);
          arrived_ = std::move(stream);
        }) {
    state.add_variable(counts);
    ServedOptimizer adds{.name = "adds", .variables = {counts}, .slots = {{}}};
    adds.apply = [](auto gradients, auto variables, double) { Tensor(variables[0]).add_(gradients[0].value); };
    state.add_optimizer(adds);
    thread_ = std::thread([this] { serve(); });
  }
  ~CountingServer() {
    ends_ = true;
    thread_.join();
  }

  ParameterServerStrategy strategy{
      {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1)}};
  const Tensor counts;
  ServedState state{1, {}};
  std::atomic<int64_t> num_requests = 0;

 private:
  void serve() {
    VariableServer server(state, 0);
    std::unique_ptr<Link> link;
    while (!ends_) {
      std::unique_ptr<rpc::Stream> arrived;
      {
        const std::lock_guard lock(mutex_);
        arrived.swap(arrived_);
      }
      if (arrived && !link)
        link = std::make_unique<Link>(cluster::Task{"worker", 0}, std::move(arrived), 10s);
      else if (arrived)
        link->renew(std::move(arrived));
      try {
        const auto message = link ? link->take() : std::nullopt;
        if (!message) {
          std::this_thread::sleep_for(100us);
          continue;
        }
        ++num_requests;
        link->send(server.answer(*message));
      } catch (const Error& error) {
        link->cut(error.what());
        std::this_thread::sleep_for(100us);
      }
    }
  }

  std::mutex mutex_;
  std::unique_ptr<rpc::Stream> arrived_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
  rpc::Server door_;  // ends first
};

// A worker's way to the server. Each connection is cut after bytes of one way that chance tells; some change a bit
// before, which may be one that nobody looks at.
class FaultyWay {
 public:
  FaultyWay(std::string target, const TemporaryFolder& folder) : target_(std::move(target)), folder_(folder) {}

  std::unique_ptr<rpc::Stream> connect() {
    Fault faults[2];
    Fault& fault = faults[random_() % 2];
    const bool flips = random_() % 8 == 0;
    fault.cut_after = static_cast<int64_t>(random_() % 6000);
    if (flips) fault.flip_at = fault.cut_after / 2;
    proxy_ = nullptr;
    const std::string path = folder_ / str("way_", ++num_connections);
    proxy_ = std::make_unique<FaultProxy>(path, target_, faults[0], faults[1]);
    return rpc::connect("unix:" + path, {});
  }
  int num_connections = 0;

 private:
  const std::string target_;
  const TemporaryFolder& folder_;
  std::mt19937_64 random_{7};
  std::unique_ptr<FaultProxy> proxy_;
};

LongMessage update(int64_t call, int64_t count) {
  LongMessage message(Kind::push);
  for (const int64_t each : {call, int64_t{0}, call, int64_t{0}}) message.number(each);  // first open: this call
  const double scale = 1;
  message.raw(&scale, sizeof scale);
  for (const int64_t each : {0, 1, 0, 0}) message.number(each);  // nothing is pulled; one tensor: the first one, whole
  const auto gradient = std::make_shared<std::vector<double>>(static_cast<size_t>(count));
  (*gradient)[static_cast<size_t>(call)] = 1;
  message.part(gradient->data(), gradient->size() * sizeof(double), gradient);
  return message;
}

TEST(ServedRequests, EachUpdateIsMadeOnceThroughLostRequestsAndLostReplies) {
  const Watchdog watchdog(120s);
  const TemporaryFolder folder;
  constexpr int64_t kUpdates = 100;
  const std::string path = folder / "server";
  CountingServer server("unix:" + path, kUpdates);
  FaultyWay way(path, folder);
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::make_unique<Link>(cluster::Task{"ps", 0}, way.connect(), 2s));
  ServerRequests requests(links, [&](int) { links[0]->renew(way.connect()); });
  int64_t last_version = 0;
  for (int64_t call = 0; call < kUpdates; ++call) {
    requests.ask([&](int) { return std::optional(update(call, kUpdates)); }, [](int, ByteReader&) {});
    const auto pull = [&](int) {
      LongMessage message(Kind::pull);
      for (const int64_t each : {1, 0, 0}) message.number(each);
      return std::optional(std::move(message));
    };
    requests.ask(pull, [&](int, ByteReader& reader) {
      const int64_t version = reader.number();
      EXPECT_GT(version, last_version);
      last_version = version;
      double sum = 0;
      for (int64_t i = 0; i < kUpdates; ++i) {
        double element;
        std::memcpy(&element, reader.raw(sizeof element), sizeof element);
        EXPECT_EQ(element, i <= call ? 1 : 0) << i << " after " << call;
        sum += element;
      }
      EXPECT_EQ(sum, static_cast<double>(call + 1));
    });
  }
  EXPECT_GT(way.num_connections, 20);
  EXPECT_GT(server.num_requests, 2 * kUpdates) << "no reply was lost";
}

size_t entries(const char* folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

size_t num_shared_memories() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:tutti-link") != std::string::npos;
  return count;
}

// One task's part in a training that does little.
void take_part(const cluster::Environment& environment, rpc::Carriage carriage) {
  const auto joined = cluster::Cluster::join({.connect_timeout = 60s}, environment);
  TaskLinks links(joined, {.connect_timeout = 60s, .silence = 60s, .carriage = carriage});
  EXPECT_EQ(num_shared_memories() > 0, carriage == rpc::Carriage::shared_memory);
  for (const auto* peers : {&links.coordinators(), &links.workers(), &links.servers()})
    for (const auto& peer : *peers) peer->send(Bytes(100'000, 7));
  for (const auto* peers : {&links.coordinators(), &links.workers(), &links.servers()})
    for (const auto& peer : *peers) EXPECT_EQ(peer->receive().bytes(), Bytes(100'000, 7));
}

// Ports that were free a moment ago.
std::vector<int> free_ports(int count) {
  std::vector<FileDescriptor> probes;
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    probes.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(probes.back().number(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(probes.back().number(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

void make_and_end_a_cluster(rpc::Carriage carriage) {
  const auto ports = free_ports(4);
  const auto at = [&](size_t i) { return str("\"127.0.0.1:", ports[i], '"'); };
  const std::string cluster =
      str(R"({"chief": [)", at(0), R"(], "worker": [)", at(1), ", ", at(2), R"(], "ps": [)", at(3), "]}");
  std::vector<std::thread> tasks;
  for (const char* task :
       {R"("chief", "index": 0)", R"("worker", "index": 0)", R"("worker", "index": 1)", R"("ps", "index": 0)"}) {
    const std::string config = str(R"({"cluster": )", cluster, R"(, "task": {"type": )", task, "}}");
    tasks.emplace_back([=] { take_part(cluster::Environment({{"TF_CONFIG", config}}), carriage); });
  }
  for (std::thread& task : tasks) task.join();
  EXPECT_EQ(num_shared_memories(), 0);
}

TEST(ServedClusters, RoundsOfMakingAndEndingOneLeaveNoThreadAndNoSocket) {
  const char* const given = std::getenv("TUTTI_SERVED_ROUNDS");
  const int rounds = given ? std::atoi(given) : 20;
  const Watchdog watchdog(std::chrono::seconds(60 + 5 * rounds));
  constexpr int kFirst = 5;  // after which gRPC has what it keeps
  const auto make_and_end = [](int round) {
    make_and_end_a_cluster(round % 2 == 0 ? rpc::Carriage::shared_memory : rpc::Carriage::sockets);
  };
  for (int round = 0; round < kFirst; ++round) make_and_end(round);
  const size_t threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
  for (int round = kFirst; round < kFirst + rounds; ++round) make_and_end(round);
  const auto less_than_one_a_round = threads + static_cast<size_t>(rounds) / 2;
  for (int i = 0; i < 100 && entries("/proc/self/task") >= less_than_one_a_round; ++i)
    std::this_thread::sleep_for(100ms);
  EXPECT_LT(entries("/proc/self/task"), less_than_one_a_round);
  EXPECT_LT(entries("/proc/self/fd"), files + static_cast<size_t>(rounds) / 2);
}

}  // namespace
}  // namespace tutti::servers
