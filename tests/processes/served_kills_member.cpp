// What served_kills_test.py starts as chief, workers and servers: functions that count on every server, while all
// workers but the first are killed at random, and with --cut-ms the connections of all to servers are cut that often,
// or with --cut-chief 1 those of workers to the chief, or with --cut-servers 1 those of servers to it. The chief looks
// at the history.
//   served_kills_member --seed N [--calls N] [--slow-ms MS] [--cut-ms MS [--cut-chief 1 | --cut-servers 1]] [--sockets
//   1]
#include <ATen/ops/zeros.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "tutti/cluster/from_environment.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/keras/optimizers/sgd.h"

namespace {

using namespace tutti;

constexpr int64_t kServers = 2, kCallsBeforeDeath = 40;
constexpr int64_t kCallsBetweenJoins = 10;  // where connections of the chief to servers are cut
constexpr int64_t kLastCalls = 20;          // after which the chief ends, and nobody can come to it again

// Element s * calls + i tells how often call i was counted on server s, in each of two updates.
struct Counts : torch::nn::Module {
  Tensor first, second;

  explicit Counts(int64_t calls) {
    first = register_parameter("first", at::zeros({kServers * calls}, at::kDouble));
    second = register_parameter("second", at::zeros({kServers * calls}, at::kDouble));
  }
};

// Kills this process some time after one of its first calls.
class Death {
 public:
  explicit Death(uint64_t seed) : random_(seed), call_(static_cast<int64_t>(random_() % kCallsBeforeDeath)) {}

  void look(int64_t call) {
    if (call == call_)
      std::thread([delay = std::chrono::microseconds(random_() % 5000)] {
        std::this_thread::sleep_for(delay);
        kill(getpid(), SIGKILL);
      }).detach();
    if (call >= kCallsBeforeDeath) pause();  // it comes
  }

 private:
  std::mt19937_64 random_;
  int64_t call_;
};

// Cuts this process's connections to servers, or to the chief, one every so often.
class Cuts {
 public:
  Cuts(uint64_t seed, int64_t every_ms, bool of_chief) : random_(seed) {
    for (int i = 0; i < kServers; ++i) ends_of_paths_.push_back(str("-ps-", i));
    if (of_chief) ends_of_paths_ = {"-chief-0"};
    thread_ = std::thread([this, every_ms] {
      while (!ends_) {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % static_cast<uint64_t>(2000 * every_ms)));
        cut_one();
      }
    });
  }
  ~Cuts() {
    ends_ = true;
    thread_.join();
  }

 private:
  void cut_one() {
    std::vector<int> found;
    for (int file = 3; file < 1024; ++file) {
      sockaddr_un peer{};
      socklen_t length = sizeof peer - 1;
      if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &length) != 0 || peer.sun_family != AF_UNIX) continue;
      const std::string path = peer.sun_path;
      if (std::ranges::any_of(ends_of_paths_, [&](const auto& end) { return path.ends_with(end); }))
        found.push_back(file);
    }
    if (!found.empty()) shutdown(found[random_() % found.size()], SHUT_RDWR);
  }

  std::mt19937_64 random_;
  std::vector<std::string> ends_of_paths_;  // of sockets, where tasks of one host meet
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

struct Seen {
  int64_t worker;  // its process
  int64_t call;    // of this worker, from 0 on
  Tensor counted;  // on each server, when it began
};

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::internal, "the history is wrong: " + what); }

void check(std::vector<Seen> history, const Counts& counts, int64_t calls, int64_t iterations) {
  for (const auto& [name, tensor] : counts.named_parameters().pairs())
    for (int64_t i = 0; i < kServers * calls; ++i)
      if (const double count = tensor[i].item<double>(); count != 1)
        fail(str("call ", i % calls, " was counted ", count, " times on server ", i / calls, ", in ", name));
  if (iterations != 2 * calls) fail(str(iterations, " updates of ", calls, " calls"));
  std::ranges::sort(history, {}, [](const Seen& seen) { return std::pair(seen.worker, seen.call); });
  for (size_t i = 0; i < history.size(); ++i)
    for (int64_t server = 0; server < kServers; ++server) {
      const double counted = history[i].counted[server].item<double>();
      if (counted < static_cast<double>(history[i].call))
        fail(str("call ", history[i].call, " of worker ", history[i].worker, " saw ", counted,
                 " counts, fewer than its worker had made"));
      if (i > 0 && history[i].worker == history[i - 1].worker &&
          counted < history[i - 1].counted[server].item<double>())
        fail(str("counts of server ", server, " went back to ", counted, " before worker ", history[i].worker));
    }
}

struct Options {
  uint64_t seed = 0;
  int64_t calls = 300, slow_ms = 0, cut_ms = 0;
  bool cut_chief = false, cut_servers = false, sockets = false;
};

void count(ParameterServerStrategy& strategy, const Options& options) {
  const int64_t calls = options.calls;
  const auto [counts, optimizer] = strategy.build([&] {
    auto made = std::make_shared<Counts>(calls);
    keras::optimizers::SGD sgd({.learning_rate = 1});
    sgd.build(made->parameters());
    return std::pair(made, sgd);
  });
  ClusterCoordinator coordinator(strategy);
  const auto made = coordinator.create_per_worker_value([] { return std::set<int64_t>(); });  // calls
  const uint64_t seed = options.seed + 1000 * static_cast<uint64_t>(getpid());
  Death death(seed);
  std::optional<Cuts> cuts;
  const auto add =
      coordinator.function("add", [&, &counts = counts, &optimizer = optimizer](std::set<int64_t>& own, int64_t i) {
        const auto num_before = static_cast<int64_t>(own.size());
        if (current_worker_index() > 0) death.look(num_before);
        const bool is_cut =
            options.cut_ms > 0 && !options.cut_servers && !(options.cut_chief && i > calls - kLastCalls);
        if (is_cut && !cuts) cuts.emplace(seed, options.cut_ms, options.cut_chief);
        if (!is_cut) cuts.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(options.slow_ms));
        const auto counted = strategy.run([&] {
          const at::NoGradGuard no_grad;
          const Tensor now = counts->first * 1;
          Tensor gradient = at::zeros({kServers, calls}, at::kDouble);
          gradient.select(1, i).fill_(-1);
          gradient = gradient.view({-1});
          optimizer.apply_gradients({gradient}, {counts->first});
          optimizer.apply_gradients({gradient}, {counts->second});
          return now.view({kServers, calls}).sum(1);
        });
        own.insert(i);
        return Seen{int64_t{getpid()}, num_before, counted[0]};
      });
  if (options.cut_servers && cluster::from_environment().task_type() == "ps")
    cuts.emplace(seed, options.cut_ms, /*of_chief=*/true);
  coordinator.run([&, &counts = counts, &optimizer = optimizer] {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<RemoteValue<Seen>> all;
    for (int64_t i = 0; i < calls; ++i) {
      all.push_back(coordinator.schedule(add, made, i));
      if (options.cut_servers && i % kCallsBetweenJoins == 0) coordinator.join();
    }
    coordinator.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    check(coordinator.fetch(all), *counts, calls, optimizer.iterations());
    std::cout << "the history of " << calls << " calls is right, which took " << took.count() << " s\n" << std::flush;
  });
  if (!options.cut_servers) return;
  cuts.reset();
  coordinator.run([] {});  // with servers that may have missed how the run before has ended
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (argv[i] == std::string("--seed")) options.seed = std::stoull(argv[i + 1]);
    if (argv[i] == std::string("--calls")) options.calls = std::stoll(argv[i + 1]);
    if (argv[i] == std::string("--slow-ms")) options.slow_ms = std::stoll(argv[i + 1]);
    if (argv[i] == std::string("--cut-ms")) options.cut_ms = std::stoll(argv[i + 1]);
    if (argv[i] == std::string("--cut-chief")) options.cut_chief = true;
    if (argv[i] == std::string("--cut-servers")) options.cut_servers = true;
    if (argv[i] == std::string("--sockets")) options.sockets = true;
  }
  try {
    ParameterServerStrategy strategy({.variable_partitioner = FixedShardsPartitioner(kServers),
                                      .devices = configure_logical_cpus(1),
                                      .connect_timeout = std::chrono::seconds(60),
                                      .lost_after = std::chrono::seconds(20),
                                      .shares_memory = !options.sockets});
    count(strategy, options);
  } catch (const Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << '\n' << std::flush;
    return 3;
  }
  return 0;
}
